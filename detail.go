package comporta

// Detail says more of a Reason: which fault it was. Its String is the sentence for
// whoever debugs the client. It says nothing that the client did not send itself,
// but that a key was used before with something else.
type Detail uint8

// The details: those of a key are of IdempotencyKeyInvalid, the others of
// IdempotencyPayloadMismatch.
const (
	DetailNone Detail = iota
	KeySentTwice
	KeyEmpty
	KeyTooLong
	KeyUnclosed
	KeyQuotes
	KeyNotVisible
	OtherTarget
	OtherBody
	NumDetails
)

var details = [NumDetails]string{
	KeySentTwice:  "Idempotency-Key was sent in more than one line: send one",
	KeyEmpty:      "Idempotency-Key is empty: send 1 to 255 visible ASCII characters",
	KeyTooLong:    "Idempotency-Key is longer than 255 characters",
	KeyUnclosed:   "Idempotency-Key begins with a quotation mark and does not end with one",
	KeyQuotes:     "Idempotency-Key has a quotation mark or a backslash within the key, where neither may be",
	KeyNotVisible: "Idempotency-Key has a space or another character that is not visible ASCII",
	OtherTarget:   "the path or the query is not that of the first request with this key",
	OtherBody:     "the body is not that of the first request with this key",
}

func (d Detail) String() string { return nameOf(details[:], int(d)) }

// KeyFault says what is wrong with an Idempotency-Key that was sent in these lines;
// DetailNone: nothing, it is one key, or none was sent.
func KeyFault(lines []string) Detail {
	switch len(lines) {
	case 0:
		return DetailNone
	case 1:
		_, fault := readKey(lines[0])
		return fault
	}
	return KeySentTwice
}
