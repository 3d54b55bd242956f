package hugepage

import "testing"

func TestAdviceChangesNoContent(t *testing.T) {
	for _, n := range []int{0, 1, 1000, 1 << 20, 1<<22 + 13} {
		table := make([]uint64, n)
		Advise(table)
		for i := range table {
			if table[i] != 0 {
				t.Fatalf("%d words: word %d is %d", n, i, table[i])
			}
			table[i] = uint64(i)
		}
		Advise(table)
		for i := range table {
			if table[i] != uint64(i) {
				t.Fatalf("%d words: word %d was lost", n, i)
			}
		}
	}
}
