package queue

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The file grows with what it holds and not with what has passed through it.
func TestTheFileIsBounded(t *testing.T) {
	q := open(t, Config{})
	payload := make([]byte, 20_000)
	largest := int64(0)
	for i := range 100 {
		if _, err := q.EnqueueAt(start, Entry{Key: fmt.Sprint(i), Payload: payload}, 0); err != nil {
			t.Fatal(err)
		}
		if i >= 3 {
			settle(t, q, start, next(t, q, start), Result{Fate: Done}, 0)
		}
		largest = max(largest, q.Stats().FileBytes)
	}
	if limit := 2*4*int64(len(payload)+itemOverhead+2) + slack + 25_000; largest > limit {
		t.Errorf("the file grew to %d bytes, want at most %d", largest, limit)
	}
	q = reopen(t, q)
	wantKeys(t, "waiting", waitingKeys(q), "97", "98", "99")
	info, err := os.Stat(q.config.Path)
	if err != nil || info.Size() != q.Stats().FileBytes {
		t.Errorf("the file has %d bytes, the queue says %d, %v", info.Size(), q.Stats().FileBytes, err)
	}
	if left, _ := filepath.Glob(q.config.Path + "*"); len(left) != 1 {
		t.Errorf("beside the queue lies %v", left)
	}
}

// A queue that fails for a year must not fill the disk with the story of it.
func TestFailuresDoNotGrowTheFile(t *testing.T) {
	q := open(t, Config{MaxAttempts: 1 << 20})
	enqueue(t, q, start, "a")
	now := start
	for range 3000 {
		now = now.Add(time.Hour)
		settle(t, q, now, next(t, q, now), Result{}, 0)
	}
	if size := q.Stats().FileBytes; size > slack+1000 {
		t.Errorf("%d bytes for one item", size)
	}
	if item := next(t, reopen(t, q), now.Add(time.Hour)); item.Attempts != 3000 {
		t.Errorf("%d attempts", item.Attempts)
	}
}

func TestOneOwner(t *testing.T) {
	q := open(t, Config{})
	if _, err := Open(q.config); !errors.Is(err, ErrLocked) {
		t.Fatalf("a second queue on the file: %v", err)
	}
	if err := q.log.rewrite(q.state.records()); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(q.config); !errors.Is(err, ErrLocked) {
		t.Fatalf("a second queue after a compaction: %v", err)
	}
	reopen(t, q)
}

// What a crashed compaction left is written over.
func TestARemainderOfACompaction(t *testing.T) {
	q := open(t, Config{})
	enqueue(t, q, start, "a")
	if err := os.WriteFile(q.config.Path+".new", []byte("half of a fi"), 0o600); err != nil {
		t.Fatal(err)
	}
	q = reopen(t, q)
	if err := q.log.rewrite(q.state.records()); err != nil {
		t.Fatal(err)
	}
	wantKeys(t, "waiting", waitingKeys(reopen(t, q)), "a")
}

// An item whose writing failed does not exist, and a file that can no longer be
// trusted takes nothing more.
func TestAFileThatFails(t *testing.T) {
	q := open(t, Config{})
	enqueue(t, q, start, "a")
	file, err := os.Open(q.config.Path) // read only: writes fail, and so does the cut
	if err != nil {
		t.Fatal(err)
	}
	good := q.log.file
	q.log.file = file
	if _, err := q.EnqueueAt(start, Entry{Key: "b"}, 0); err == nil {
		t.Fatal("a write that failed was accepted")
	}
	q.log.file = good
	if _, err := q.EnqueueAt(start, Entry{Key: "c"}, 0); err == nil {
		t.Error("a broken log took an item")
	}
	if _, _, err := q.NextAt(start); err == nil {
		t.Error("a broken log gave an item")
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	wantKeys(t, "waiting", waitingKeys(q), "a")
	wantKeys(t, "waiting after opening anew", waitingKeys(reopen(t, q)), "a")
}

func TestTheDirectoryMustExist(t *testing.T) {
	if _, err := Open(Config{Path: filepath.Join(t.TempDir(), "no", "q")}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

func BenchmarkEnqueueAndSend(b *testing.B) {
	q := open(b, Config{})
	payload := make([]byte, 500)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := q.EnqueueAt(start, Entry{Payload: payload}, 0); err != nil {
			b.Fatal(err)
		}
		item, _, err := q.NextAt(start)
		if err != nil {
			b.Fatal(err)
		}
		if err := q.SettleAt(start, item.ID, Result{Fate: Done}, 0); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkNextWhileWaiting(b *testing.B) {
	q := open(b, Config{})
	enqueue(b, q, start, "a")
	q.ReconnectedAt(start, 1)
	b.ReportAllocs()
	for b.Loop() {
		_, _, _ = q.NextAt(start)
	}
}

// cases/client.md D15: what is reported as kept is on the disk, and not in the
// system's memory only. The null device takes every write and has no disk.
func TestCase_Client_D15_EnqueueSyncs(t *testing.T) {
	q := open(t, Config{})
	enqueue(t, q, start, "a")
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if null.Sync() == nil {
		t.Skip("this system syncs the null device")
	}
	disk := q.log.file
	q.log.file = null
	t.Cleanup(func() { _ = disk.Close() })
	if _, err := q.EnqueueAt(start, Entry{Key: "b"}, 0); err == nil || !strings.Contains(err.Error(), "must be opened anew") {
		t.Errorf("enqueued without a sync: %v", err)
	}
}

// A path that is a symbolic link stays one: the file that it leads to is the queue.
func TestASymbolicLinkIsKept(t *testing.T) {
	disk, link := filepath.Join(t.TempDir(), "q"), filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(disk, link); err != nil {
		t.Fatal(err)
	}
	q := open(t, Config{Path: link}) // makes the file, through the link
	enqueue(t, q, start, "a")
	if err := q.log.rewrite(q.state.records()); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link was replaced: %v %v", info, err)
	}
	q = reopen(t, q)
	wantKeys(t, "behind the link", waitingKeys(q), "a")
}
