package comporta

// Reason names why the gate said no. Its String is the code of the wire
// contract; all that a refusal says follows from it.
type Reason uint8

// The reasons, in the order of docs/problems.md.
const (
	ReasonNone Reason = iota
	CapacityExhausted
	RetryDeferred
	RateLimited
	CostExceedsBurst
	LimiterUnavailable
	ChallengeRequired
	ClientTooOld
	HopelessRepeat
	ShedByOperator
	UpstreamUnavailable
	UpstreamFailed
	UpstreamTimeout
	DeadlineExceeded
	IdempotencyKeyMissing
	IdempotencyKeyInvalid
	IdempotencyInProgress
	IdempotencyPayloadMismatch
	IdempotencyOutcomeUnknown
	IdempotencyUnavailable
	IdempotencyAnswerNotKept
	Draining
	MalformedRequest
	RequestTimeout
	BodyTooLarge
	URITooLong
	HeaderTooLarge
	UnimplementedTransferCoding
	MethodNotAllowed
	ConnectionLimit
	NumReasons
)

// ReasonInfo is all that is fixed about a reason.
type ReasonInfo struct {
	Code       string // on the wire, in metrics and logs
	Portuguese string // the code in the pt-BR dialect; empty: the English one
	Title      string
	Status     int
	Retryable  bool
	// Slotted reasons ask the calendar for the instant of return; the others
	// that are retryable bring their own.
	Slotted bool
	// Retry is the meaning in one line, for docs and for `comporta explain`.
	Meaning string
}

var reasons = [NumReasons]ReasonInfo{
	ReasonNone:         {Code: "none", Title: "Admitted", Status: 200},
	CapacityExhausted:  {"capacity_exhausted", "capacidade_esgotada", "Capacity exhausted", 503, true, true, "no free permit, whatever the kind of request"},
	RetryDeferred:      {"retry_deferred", "repeticao_adiada", "Retry deferred", 503, true, true, "a free permit was withheld from a repeat"},
	RateLimited:        {"rate_limited", "limite_excedido", "Rate limited", 429, true, false, "a rate rule denied"},
	CostExceedsBurst:   {"cost_exceeds_burst", "custo_acima_do_limite", "Cost exceeds burst", 429, false, false, "the request can never fit the bucket"},
	LimiterUnavailable: {"limiter_unavailable", "limitador_indisponivel", "Limiter unavailable", 503, true, false, "the limiter's store is down and the rule is closed"},
	ChallengeRequired:  {"challenge_required", "desafio_exigido", "Challenge required", 503, true, false, "proof of work is asked"},
	ClientTooOld:       {"client_too_old", "cliente_desatualizado", "Client too old", 403, false, false, "the client is below the minimum version"},
	HopelessRepeat:     {"hopeless_repeat", "repeticao_sem_esperanca", "Hopeless repeat", 422, false, false, "the same request failed the same deterministic way before"},
	ShedByOperator:     {"shed_by_operator", "descartado_pelo_operador", "Shed by operator", 503, true, true, "an operator sheds this route, client or version for a while"},
	UpstreamUnavailable: {"upstream_unavailable", "dependencia_indisponivel", "Upstream unavailable", 503, true, true,
		"the service cannot be reached: breaker open, dial failed or pool exhausted"},
	UpstreamFailed:             {"upstream_failed", "dependencia_falhou", "Upstream failed", 502, true, true, "the service hung up or answered garbage after bytes were sent"},
	UpstreamTimeout:            {"upstream_timeout", "dependencia_demorou", "Upstream timeout", 504, true, true, "the service did not answer in time"},
	DeadlineExceeded:           {"deadline_exceeded", "prazo_esgotado", "Deadline exceeded", 504, true, false, "the caller's patience was spent before the service was asked"},
	IdempotencyKeyMissing:      {"idempotency_key_missing", "chave_ausente", "Idempotency key missing", 400, false, false, "the route requires an Idempotency-Key"},
	IdempotencyKeyInvalid:      {"idempotency_key_invalid", "chave_invalida", "Idempotency key invalid", 400, false, false, "the Idempotency-Key cannot be read"},
	IdempotencyInProgress:      {"idempotency_in_progress", "chave_em_andamento", "Idempotency key in progress", 409, true, false, "the first request with this key still runs"},
	IdempotencyPayloadMismatch: {"idempotency_payload_mismatch", "chave_com_outro_conteudo", "Idempotency key reused", 422, false, false, "the key was used before with another request"},
	IdempotencyOutcomeUnknown:  {"idempotency_outcome_unknown", "resultado_desconhecido", "Outcome unknown", 409, false, false, "nobody knows what became of the first request with this key"},
	IdempotencyUnavailable:     {"idempotency_unavailable", "idempotencia_indisponivel", "Idempotency unavailable", 503, true, false, "the store of keys is down"},
	IdempotencyAnswerNotKept:   {"idempotency_answer_not_kept", "resposta_nao_guardada", "Answer not kept", 409, false, false, "the first request with this key was carried out, and its answer was not kept"},
	Draining:                   {"draining", "encerrando", "Draining", 503, true, false, "the gateway is shutting down"},
	MalformedRequest:           {"malformed_request", "", "Malformed request", 400, false, false, "the request cannot be understood without guessing"},
	RequestTimeout:             {"request_timeout", "", "Request timeout", 408, true, false, "the request did not arrive in time"},
	BodyTooLarge:               {"body_too_large", "", "Body too large", 413, false, false, "the body is above the limit"},
	URITooLong:                 {"uri_too_long", "", "URI too long", 414, false, false, "the request target is above the limit"},
	HeaderTooLarge:             {"header_too_large", "", "Header too large", 431, false, false, "the header is above the limit"},
	UnimplementedTransferCoding: {"unimplemented_transfer_coding", "", "Transfer coding not implemented", 501, false, false,
		"the request uses a transfer coding other than chunked"},
	MethodNotAllowed: {"method_not_allowed", "", "Method not allowed", 405, false, false, "the method is never forwarded"},
	ConnectionLimit:  {"connection_limit", "", "Connection limit", 503, true, false, "too many connections, from one network or in all"},
}

// Info returns what is fixed about the reason.
func (r Reason) Info() *ReasonInfo {
	if r >= NumReasons {
		r = ReasonNone
	}
	return &reasons[r]
}

func (r Reason) String() string { return r.Info().Code }

// ReasonByCode finds a reason by its code, or by its code in the pt-BR dialect.
func ReasonByCode(code string) (Reason, bool) {
	for r := ReasonNone + 1; r < NumReasons; r++ {
		if reasons[r].Code == code || (reasons[r].Portuguese != "" && reasons[r].Portuguese == code) {
			return r, true
		}
	}
	return ReasonNone, false
}

// Problem is the body of a refusal (RFC 9457, application/problem+json).
type Problem struct {
	Type             string   `json:"type"`
	Title            string   `json:"title"`
	Status           int      `json:"status"`
	Detail           string   `json:"detail,omitempty"`
	Code             string   `json:"code"`
	Retryable        bool     `json:"retryable"`
	RetryAfterS      int64    `json:"retry_after_s,omitempty"`
	RetryAfterMs     int64    `json:"retry_after_ms,omitempty"`
	ObservedAttempts int      `json:"observed_attempts,omitempty"`
	Outcome          string   `json:"outcome,omitempty"` // "unknown" when the service may have acted
	MinimumVersion   string   `json:"minimum_version,omitempty"`
	ViolatedPolicies []string `json:"violated_policies,omitempty"`
	RequestID        string   `json:"request_id,omitempty"`
}
