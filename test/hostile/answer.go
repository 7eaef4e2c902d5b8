package hostile

import (
	"strconv"
)

// addToID returns the numeric id plus n.
func addToID(id string, n int64) string {
	base, _ := strconv.ParseInt(id, 10, 64)
	return strconv.FormatInt(base+n, 10)
}

// withID answers the call correctly, but under an id derived from the right one.
func withID(change func(id string) string) func(*stdioServer) {
	return onCall(func(s *stdioServer, r request) {
		r.id = change(r.id)
		s.result(r, fineResult)
	})
}

func constantID(id string) func(string) string { return func(string) string { return id } }

// answerRows are about the envelope of answers: ids and members.
var answerRows = []Misbehaviour{
	handWritten("id/float", "Returns the id as a float, such as 7.0, as servers do that read every number as a float.", withID(func(id string) string { return id + ".0" })),
	handWritten("id/exponent", "Returns the id in exponent notation.", withID(func(id string) string {
		return id[:1] + "." + id[1:] + "e" + strconv.Itoa(len(id)-1)
	})),
	handWritten("id/string", "Returns the id as a string.", withID(func(id string) string { return `"` + id + `"` })),
	handWritten("id/negative", "Returns the id with a minus sign.", withID(func(id string) string { return "-" + id })),
	handWritten("id/huge", "Answers with an id that fits no integer type.", withID(func(id string) string { return id + repeated("0", 400) })),
	handWritten("id/infinite", "Answers with an id that fits no float type.", withID(constantID("1e400"))),
	handWritten("id/rounded", "Returns the id truncated to 32 bits.", withID(func(id string) string {
		n, _ := strconv.ParseInt(id, 10, 64)
		return strconv.FormatInt(int64(int32(n)), 10)
	})),
	handWritten("id/null", "Answers with an id that is null.", withID(constantID("null"))),
	handWritten("id/array", "Answers with an id that is an array.", withID(func(id string) string { return "[" + id + "]" })),
	handWritten("id/object", "Answers with an id that is an object.", withID(func(id string) string { return `{"id":` + id + `}` })),
	handWritten("id/true", "Answers with an id that is true.", withID(constantID("true"))),
	handWritten("id/wrong", "Answers a request that the client never sent.", withID(func(id string) string { return addToID(id, 1_000_000) })),
	handWritten("id/missing", "Answers without an id.", answersCall(`{"jsonrpc":"2.0","result":$fine}`)),
	handWritten("id/deep", "Answers with an id of 100,000 nested arrays.", withID(constantID(repeated("[", 100_000)+repeated("]", 100_000)))),
	handWritten("id/long", "Answers with an id of a million characters.", withID(func(string) string { return `"` + repeated("1", 1_000_000) + `"` })),
	handWritten("id/escaped-key", "Spells the key \"id\" with an escape sequence, which is valid JSON.", answersCall(`{"jsonrpc":"2.0","\u0069d":$id,"result":$fine}`)),
	handWritten("id/twice", "Repeats the member \"id\" in one answer; only the last one is right.", answersCall(`{"jsonrpc":"2.0","id":7,"id":$id,"result":$fine}`)),
	handWritten("id/last", "Writes the id after the result, which exposes clients that expect the members in one order.", answersCall(`{"result":$fine,"jsonrpc":"2.0","id":$id}`)),

	handWritten("answer/version-1", "Answers in the format of JSON-RPC 1.0.", answersCall(`{"jsonrpc":"1.0","id":$id,"result":$fine,"error":null}`)),
	handWritten("answer/no-version", "Leaves the member \"jsonrpc\" out of the answer.", answersCall(`{"id":$id,"result":$fine}`)),
	handWritten("answer/both", "Answers with both a result and an error, which JSON-RPC forbids.", answersCall(`{"jsonrpc":"2.0","id":$id,"result":$fine,"error":{"code":-32603,"message":"and yet"}}`)),
	handWritten("answer/neither", "Answers with neither a result nor an error, so the call has no outcome.", answersCall(`{"jsonrpc":"2.0","id":$id}`)),
	handWritten("answer/both-null", "Answers with both a result and an error, each of them null.", answersCall(`{"jsonrpc":"2.0","id":$id,"result":null,"error":null}`)),
	handWritten("answer/error-null", "Answers with \"error\":null and no result, so the call neither succeeds nor fails.", answersCall(`{"jsonrpc":"2.0","id":$id,"error":null}`)),
	handWritten("answer/with-method", "Adds a \"method\" to the answer; a client that looks at it first takes the answer for a request.", answersCall(`{"jsonrpc":"2.0","id":$id,"method":"tools/call","result":$fine}`)),
	handWritten("answer/result-twice", "Repeats the member \"result\" in one answer; the first one is not an object.", answersCall(`{"jsonrpc":"2.0","id":$id,"result":1,"result":$fine}`)),
	handWritten("answer/unquoted", "Writes the answer as a JavaScript object, with unquoted keys.", answersCall(`{jsonrpc:"2.0",id:$id,result:$fine}`)),
	handWritten("answer/trailing-comma", "Ends the answer with a trailing comma, which makes the line invalid JSON.", answersCall(`{"jsonrpc":"2.0","id":$id,"result":$fine,}`)),
	handWritten("answer/nan", "Writes NaN in structured content, which makes the line invalid JSON.", answersCall(`{"jsonrpc":"2.0","id":$id,"result":{"content":[],"structuredContent":{"n":NaN}}}`)),

	handWritten("error/text", "Answers with an error that is a string instead of an object.", answersCall(`{"jsonrpc":"2.0","id":$id,"error":"it did not work"}`)),
	handWritten("error/number", "Answers with an error that is a number instead of an object.", answersCall(`{"jsonrpc":"2.0","id":$id,"error":500}`)),
	handWritten("error/no-id", "Answers with an error whose id is null, and never with the id of the call.",
		answersCall(`{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"something failed"}}`)),
	handWritten("error/no-id-then-answer", "Sends an error whose id is null, twice, and then the answer.", onCall(func(s *stdioServer, r request) {
		s.write(repeated(`{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"something failed"}}`+"\n", 2))
		s.answerWell(r)
	})),
	handWritten("error/no-code", "Answers with an error that has no code.", answersCall(`{"jsonrpc":"2.0","id":$id,"error":{"message":"it did not work"}}`)),
	handWritten("error/code-text", "Answers with an error whose code is a string.", answersCall(`{"jsonrpc":"2.0","id":$id,"error":{"code":"E_FAIL","message":"it did not work"}}`)),
	handWritten("error/code-float", "Answers with an error whose code is a fraction.", answersCall(`{"jsonrpc":"2.0","id":$id,"error":{"code":-32000.5,"message":"it did not work"}}`)),
	handWritten("error/code-huge", "Answers with an error whose code fits no integer type.", answersCall(`{"jsonrpc":"2.0","id":$id,"error":{"code":1e300,"message":"it did not work"}}`)),
	handWritten("error/message-object", "Answers with an error whose message is an object.", answersCall(`{"jsonrpc":"2.0","id":$id,"error":{"code":-32000,"message":{"text":"it did not work"}}}`)),
	handWritten("error/empty", "Answers with an empty error object.", answersCall(`{"jsonrpc":"2.0","id":$id,"error":{}}`)),
	handWritten("error/large-data", "Answers with an error that carries a megabyte of data.", answersCall(`{"jsonrpc":"2.0","id":$id,"error":{"code":-32000,"message":"much","data":"`+repeated("d", 1<<20)+`"}}`)),
	handWritten("error/large-message", "Answers with an error whose message holds 100,000 terminal escape sequences.",
		answersCall(`{"jsonrpc":"2.0","id":$id,"error":{"code":-32000,"message":"`+repeated(`\u001b[31m`, 100_000)+`"}}`)),
	handWritten("error/code-of-the-sdk", "Answers with error code -32005, which the go-sdk uses internally for a rejecting transport.",
		answersCall(`{"jsonrpc":"2.0","id":$id,"error":{"code":-32005,"message":"rejected by transport"}}`)),
	handWritten("error/closed", "Answers with error code -32000, which many SDKs use for a closed connection.",
		answersCall(`{"jsonrpc":"2.0","id":$id,"error":{"code":-32000,"message":"Connection closed"}}`)),
}
