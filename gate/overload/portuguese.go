package overload

import (
	"strconv"

	"github.com/comporta/comporta"
)

// appendPortuguese appends the document of the pt-BR dialect. It has two forms:
// return at this time, or do not repeat and here is why.
func appendPortuguese(b []byte, ref *Refusal) []byte {
	b = appendField(b, `{"erro":`, portugueseCode(ref))
	if wait := ref.wait(); wait > 0 {
		b = append(b, `,"repetivel":true,"tentar_apos_s":`...)
		b = strconv.AppendInt(b, seconds(wait), 10)
		b = append(b, `,"tentativas_observadas":`...)
		// This very request has been seen, whether or not anything counted it.
		b = strconv.AppendInt(b, int64(max(ref.Attempts, 1)), 10)
		return append(b, "}\n"...)
	}
	b = append(b, `,"repetivel":false`...)
	b = appendOptional(b, `,"detalhe":`, portugueseDetail(ref))
	return append(b, "}\n"...)
}

func portugueseCode(ref *Refusal) string {
	if ref.Code != "" {
		return ref.Code
	}
	if code := ref.info().Portuguese; code != "" {
		return code
	}
	return ref.info().Code
}

func portugueseDetail(ref *Refusal) string {
	switch {
	case ref.Detail != "":
		return ref.Detail
	case ref.Code != "":
		return ""
	case portugueseWhys[ref.Why%comporta.NumDetails] != "":
		return portugueseWhys[ref.Why%comporta.NumDetails]
	}
	return portugueseDetails[ref.reason()]
}

// portugueseDetails explain the refusals that are final, or can be: in this
// dialect the detail is all that a reader gets besides the code.
var portugueseDetails = [comporta.NumReasons]string{
	comporta.CapacityExhausted:           "não há capacidade livre",
	comporta.CostExceedsBurst:            "o pedido custa mais do que o limite permite de uma só vez",
	comporta.ClientTooOld:                "a versão do cliente está abaixo da mínima aceita",
	comporta.HopelessRepeat:              "o mesmo pedido já falhou várias vezes da mesma forma",
	comporta.UpstreamFailed:              "o serviço interrompeu a resposta; não se sabe se o pedido foi executado",
	comporta.UpstreamTimeout:             "o serviço não respondeu a tempo; não se sabe se o pedido foi executado",
	comporta.IdempotencyKeyMissing:       "esta rota exige o cabeçalho Idempotency-Key",
	comporta.IdempotencyKeyInvalid:       "o cabeçalho Idempotency-Key não pôde ser lido",
	comporta.IdempotencyPayloadMismatch:  "a chave já foi usada com outro pedido",
	comporta.IdempotencyOutcomeUnknown:   "não se sabe o que aconteceu com o primeiro pedido desta chave",
	comporta.IdempotencyAnswerNotKept:    "o primeiro pedido desta chave foi executado; a resposta era grande demais para ser guardada",
	comporta.MalformedRequest:            "o pedido não pode ser interpretado sem adivinhação",
	comporta.BodyTooLarge:                "o corpo do pedido passa do limite",
	comporta.URITooLong:                  "o endereço do pedido passa do limite",
	comporta.HeaderTooLarge:              "os cabeçalhos do pedido passam do limite",
	comporta.UnimplementedTransferCoding: "o pedido usa uma codificação de transferência diferente de chunked",
	comporta.MethodNotAllowed:            "este método nunca é encaminhado",
}

// portugueseWhys are the details of the contract in this dialect.
var portugueseWhys = [comporta.NumDetails]string{
	comporta.KeySentTwice:  "o cabeçalho Idempotency-Key veio em mais de uma linha",
	comporta.KeyEmpty:      "o cabeçalho Idempotency-Key está vazio",
	comporta.KeyTooLong:    "a chave passa de 255 caracteres",
	comporta.KeyUnclosed:   "a chave começa com aspas e não termina com elas",
	comporta.KeyQuotes:     "a chave contém aspas ou uma barra invertida",
	comporta.KeyNotVisible: "a chave contém um espaço ou outro caractere que não é ASCII visível",
	comporta.OtherTarget:   "o caminho ou a query não é o do primeiro pedido desta chave",
	comporta.OtherBody:     "o corpo não é o do primeiro pedido desta chave",
}
