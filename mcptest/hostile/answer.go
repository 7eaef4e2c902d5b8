package hostile

import (
	"strconv"
)

// plus returns id + n.
func plus(id string, n int64) string {
	base, _ := strconv.ParseInt(id, 10, 64)
	return strconv.FormatInt(base+n, 10)
}

// withID answers the call well, but under an id derived from the right one.
func withID(change func(id string) string) func(*stdioServer) {
	return onCall(func(s *stdioServer, r request) {
		r.id = change(r.id)
		s.result(r, fineResult)
	})
}

func fixed(id string) func(string) string { return func(string) string { return id } }

// answerRows are about the envelope of an answer: its id and its members.
var answerRows = []Misbehaviour{
	handWritten("id/float", "Gives the id back with a fraction of .0, as a server that reads all numbers as floats.", withID(func(id string) string { return id + ".0" })),
	handWritten("id/exponent", "Gives the id back with an exponent.", withID(func(id string) string {
		return id[:1] + "." + id[1:] + "e" + strconv.Itoa(len(id)-1)
	})),
	handWritten("id/string", "Gives the id back as text.", withID(func(id string) string { return `"` + id + `"` })),
	handWritten("id/negative", "Gives the id back with a minus sign.", withID(func(id string) string { return "-" + id })),
	handWritten("id/huge", "Answers an id that no integer can hold.", withID(func(id string) string { return id + many("0", 400) })),
	handWritten("id/infinite", "Answers an id that no float can hold.", withID(fixed("1e400"))),
	handWritten("id/rounded", "Gives the id back as 32 signed bits hold it.", withID(func(id string) string {
		n, _ := strconv.ParseInt(id, 10, 64)
		return strconv.FormatInt(int64(int32(n)), 10)
	})),
	handWritten("id/null", "Answers with the id null.", withID(fixed("null"))),
	handWritten("id/array", "Answers with an array for an id.", withID(func(id string) string { return "[" + id + "]" })),
	handWritten("id/object", "Answers with an object for an id.", withID(func(id string) string { return `{"id":` + id + `}` })),
	handWritten("id/true", "Answers with a truth value for an id.", withID(fixed("true"))),
	handWritten("id/wrong", "Answers a request that was not made.", withID(func(id string) string { return plus(id, 1_000_000) })),
	handWritten("id/missing", "Answers without an id.", answersCall(`{"jsonrpc":"2.0","result":$fine}`)),
	handWritten("id/deep", "Answers with an id of 100,000 nested arrays.", withID(fixed(many("[", 100_000)+many("]", 100_000)))),
	handWritten("id/long", "Answers with an id of a million characters.", withID(func(string) string { return `"` + many("1", 1_000_000) + `"` })),
	handWritten("id/escaped-key", "Spells the key of the id with an escape.", answersCall(`{"jsonrpc":"2.0","\u0069d":$id,"result":$fine}`)),
	handWritten("id/twice", "Has two members called id, of which the last is right.", answersCall(`{"jsonrpc":"2.0","id":7,"id":$id,"result":$fine}`)),
	handWritten("id/last", "Puts the id behind the result.", answersCall(`{"result":$fine,"jsonrpc":"2.0","id":$id}`)),

	handWritten("answer/version-1", "Says that it is JSON-RPC 1.0.", answersCall(`{"jsonrpc":"1.0","id":$id,"result":$fine,"error":null}`)),
	handWritten("answer/no-version", "Does not say which JSON-RPC it is.", answersCall(`{"id":$id,"result":$fine}`)),
	handWritten("answer/both", "Has a result and an error.", answersCall(`{"jsonrpc":"2.0","id":$id,"result":$fine,"error":{"code":-32603,"message":"and yet"}}`)),
	handWritten("answer/neither", "Has neither a result nor an error.", answersCall(`{"jsonrpc":"2.0","id":$id}`)),
	handWritten("answer/both-null", "Has a result and an error, both null.", answersCall(`{"jsonrpc":"2.0","id":$id,"result":null,"error":null}`)),
	handWritten("answer/error-null", "Has an error that is null, and no result.", answersCall(`{"jsonrpc":"2.0","id":$id,"error":null}`)),
	handWritten("answer/with-method", "Has a method beside id and result.", answersCall(`{"jsonrpc":"2.0","id":$id,"method":"tools/call","result":$fine}`)),
	handWritten("answer/result-twice", "Has two results, of which the first is not an object.", answersCall(`{"jsonrpc":"2.0","id":$id,"result":1,"result":$fine}`)),
	handWritten("answer/unquoted", "Writes its answer as a JavaScript object, keys without quotes.", answersCall(`{jsonrpc:"2.0",id:$id,result:$fine}`)),
	handWritten("answer/trailing-comma", "Ends the answer with a comma too many.", answersCall(`{"jsonrpc":"2.0","id":$id,"result":$fine,}`)),
	handWritten("answer/nan", "Puts NaN where a number belongs.", answersCall(`{"jsonrpc":"2.0","id":$id,"result":{"content":[],"structuredContent":{"n":NaN}}}`)),

	handWritten("error/text", "Has an error that is text.", answersCall(`{"jsonrpc":"2.0","id":$id,"error":"it did not work"}`)),
	handWritten("error/number", "Has an error that is a number.", answersCall(`{"jsonrpc":"2.0","id":$id,"error":500}`)),
	handWritten("error/no-code", "Has an error without a code.", answersCall(`{"jsonrpc":"2.0","id":$id,"error":{"message":"it did not work"}}`)),
	handWritten("error/code-text", "Has an error whose code is text.", answersCall(`{"jsonrpc":"2.0","id":$id,"error":{"code":"E_FAIL","message":"it did not work"}}`)),
	handWritten("error/code-float", "Has an error whose code is a fraction.", answersCall(`{"jsonrpc":"2.0","id":$id,"error":{"code":-32000.5,"message":"it did not work"}}`)),
	handWritten("error/code-huge", "Has an error whose code is beyond every integer.", answersCall(`{"jsonrpc":"2.0","id":$id,"error":{"code":1e300,"message":"it did not work"}}`)),
	handWritten("error/message-object", "Has an error whose message is an object.", answersCall(`{"jsonrpc":"2.0","id":$id,"error":{"code":-32000,"message":{"text":"it did not work"}}}`)),
	handWritten("error/empty", "Has an empty error.", answersCall(`{"jsonrpc":"2.0","id":$id,"error":{}}`)),
	handWritten("error/large-data", "Has an error with a megabyte of data.", answersCall(`{"jsonrpc":"2.0","id":$id,"error":{"code":-32000,"message":"much","data":"`+many("d", 1<<20)+`"}}`)),
	handWritten("error/large-message", "Has an error with a message of a megabyte, with control characters in it.",
		answersCall(`{"jsonrpc":"2.0","id":$id,"error":{"code":-32000,"message":"`+many(`\u001b[31m`, 100_000)+`"}}`)),
	handWritten("error/code-of-the-sdk", "Answers with the code that means 'rejected by the transport' inside a well-known SDK.",
		answersCall(`{"jsonrpc":"2.0","id":$id,"error":{"code":-32005,"message":"rejected by transport"}}`)),
	handWritten("error/closed", "Answers with the code that means 'connection closed' in many SDKs.",
		answersCall(`{"jsonrpc":"2.0","id":$id,"error":{"code":-32000,"message":"Connection closed"}}`)),
}
