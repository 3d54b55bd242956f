package idempotency

import "testing"

// What is free, and who is told so, is what keeps a repeat from being carried out
// twice: every status has its row.
func TestEndings(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		policy Policy
		want   Ending
		status []int
		grpc   []int
	}{
		{Policy{}, Doubt, []int{101}, []int{1, 4}},
		{Policy{}, Record, []int{200, 201, 204, 302, 304, 400, 402, 403, 404, 406, 408, 409, 412, 417, 422, 426, 428, 431, 451, 500, 502, 504}, []int{0, 2, 3, 5, 6, 7, 9, 10, 11, 12, 13, 15}},
		{Policy{}, Release, []int{401, 407, 421, 425}, []int{16}},
		{Policy{}, Refused, []int{429, 503}, []int{8, 14}},
		{Policy{Doubt503: true}, Doubt, []int{503}, []int{14}},
		{Policy{Doubt503: true}, Refused, []int{429}, []int{8}},
		{Policy{Release5xx: true}, Refused, []int{500, 502, 503, 504}, []int{2, 13, 14, 15}},
		{Policy{Release5xx: true}, Release, []int{401}, []int{16}},
		{Policy{Release5xx: true}, Record, []int{404, 408}, []int{5}},
	} {
		for _, status := range tc.status {
			if got := tc.policy.EndingOf(status); got != tc.want {
				t.Errorf("%+v: %d ends as %d, want %d", tc.policy, status, got, tc.want)
			}
		}
		for _, code := range tc.grpc {
			if got := tc.policy.EndingOfGRPC(code); got != tc.want {
				t.Errorf("%+v: gRPC %d ends as %d, want %d", tc.policy, code, got, tc.want)
			}
		}
	}
}
