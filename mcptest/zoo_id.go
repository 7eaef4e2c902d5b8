package mcptest

import (
	"strconv"
)

// plus is an id some steps on.
func plus(id string, n int64) string {
	base, _ := strconv.ParseInt(id, 10, 64)
	return strconv.FormatInt(base+n, 10)
}

// withID answers the call right, under an id that is made of the right one.
func withID(change func(id string) string) func(*creature) {
	return atCall(func(c *creature, q question) {
		q.id = change(q.id)
		c.result(q, fine)
	})
}

func fixed(id string) func(string) string { return func(string) string { return id } }

// What can be wrong with the outside of an answer: its id and its members.
var idZoo = []Misbehaviour{
	wild("id/float", "Gives the id back with a fraction of .0, as a server that reads all numbers as floats.", withID(func(id string) string { return id + ".0" })),
	wild("id/exponent", "Gives the id back with an exponent.", withID(func(id string) string {
		return id[:1] + "." + id[1:] + "e" + strconv.Itoa(len(id)-1)
	})),
	wild("id/string", "Gives the id back as text.", withID(func(id string) string { return `"` + id + `"` })),
	wild("id/negative", "Gives the id back with a minus sign.", withID(func(id string) string { return "-" + id })),
	wild("id/huge", "Answers an id that no integer can hold.", withID(func(id string) string { return id + many("0", 400) })),
	wild("id/infinite", "Answers an id that no float can hold.", withID(fixed("1e400"))),
	wild("id/rounded", "Gives the id back as 32 signed bits hold it.", withID(func(id string) string {
		n, _ := strconv.ParseInt(id, 10, 64)
		return strconv.FormatInt(int64(int32(n)), 10)
	})),
	wild("id/null", "Answers with the id null.", withID(fixed("null"))),
	wild("id/array", "Answers with an array for an id.", withID(func(id string) string { return "[" + id + "]" })),
	wild("id/object", "Answers with an object for an id.", withID(func(id string) string { return `{"id":` + id + `}` })),
	wild("id/true", "Answers with a truth value for an id.", withID(fixed("true"))),
	wild("id/wrong", "Answers a request that nobody made.", withID(func(id string) string { return plus(id, 1_000_000) })),
	wild("id/missing", "Answers without an id.", answers(`{"jsonrpc":"2.0","result":$fine}`)),
	wild("id/deep", "Answers with an id of 100,000 nested arrays.", withID(fixed(many("[", 100_000)+many("]", 100_000)))),
	wild("id/long", "Answers with an id of a million characters.", withID(func(string) string { return `"` + many("1", 1_000_000) + `"` })),
	wild("id/escaped-key", "Spells the key of the id with an escape.", answers(`{"jsonrpc":"2.0","\u0069d":$id,"result":$fine}`)),
	wild("id/twice", "Has two members called id, of which the last is right.", answers(`{"jsonrpc":"2.0","id":7,"id":$id,"result":$fine}`)),
	wild("id/last", "Puts the id behind the result.", answers(`{"result":$fine,"jsonrpc":"2.0","id":$id}`)),

	wild("answer/version-1", "Says that it is JSON-RPC 1.0.", answers(`{"jsonrpc":"1.0","id":$id,"result":$fine,"error":null}`)),
	wild("answer/no-version", "Does not say which JSON-RPC it is.", answers(`{"id":$id,"result":$fine}`)),
	wild("answer/both", "Has a result and an error.", answers(`{"jsonrpc":"2.0","id":$id,"result":$fine,"error":{"code":-32603,"message":"and yet"}}`)),
	wild("answer/neither", "Has neither a result nor an error.", answers(`{"jsonrpc":"2.0","id":$id}`)),
	wild("answer/both-null", "Has a result and an error, both null.", answers(`{"jsonrpc":"2.0","id":$id,"result":null,"error":null}`)),
	wild("answer/error-null", "Has an error that is null, and no result.", answers(`{"jsonrpc":"2.0","id":$id,"error":null}`)),
	wild("answer/with-method", "Has a method beside id and result.", answers(`{"jsonrpc":"2.0","id":$id,"method":"tools/call","result":$fine}`)),
	wild("answer/result-twice", "Has two results, of which the first is no object.", answers(`{"jsonrpc":"2.0","id":$id,"result":1,"result":$fine}`)),
	wild("answer/unquoted", "Writes its answer as a JavaScript object, keys without quotes.", answers(`{jsonrpc:"2.0",id:$id,result:$fine}`)),
	wild("answer/trailing-comma", "Ends the answer with a comma too many.", answers(`{"jsonrpc":"2.0","id":$id,"result":$fine,}`)),
	wild("answer/nan", "Puts NaN where a number belongs.", answers(`{"jsonrpc":"2.0","id":$id,"result":{"content":[],"structuredContent":{"n":NaN}}}`)),

	wild("error/text", "Has an error that is text.", answers(`{"jsonrpc":"2.0","id":$id,"error":"it did not work"}`)),
	wild("error/number", "Has an error that is a number.", answers(`{"jsonrpc":"2.0","id":$id,"error":500}`)),
	wild("error/no-code", "Has an error without a code.", answers(`{"jsonrpc":"2.0","id":$id,"error":{"message":"it did not work"}}`)),
	wild("error/code-text", "Has an error whose code is text.", answers(`{"jsonrpc":"2.0","id":$id,"error":{"code":"E_FAIL","message":"it did not work"}}`)),
	wild("error/code-float", "Has an error whose code is a fraction.", answers(`{"jsonrpc":"2.0","id":$id,"error":{"code":-32000.5,"message":"it did not work"}}`)),
	wild("error/code-huge", "Has an error whose code is beyond every integer.", answers(`{"jsonrpc":"2.0","id":$id,"error":{"code":1e300,"message":"it did not work"}}`)),
	wild("error/message-object", "Has an error whose message is an object.", answers(`{"jsonrpc":"2.0","id":$id,"error":{"code":-32000,"message":{"text":"it did not work"}}}`)),
	wild("error/empty", "Has an empty error.", answers(`{"jsonrpc":"2.0","id":$id,"error":{}}`)),
	wild("error/large-data", "Has an error with a megabyte of data.", answers(`{"jsonrpc":"2.0","id":$id,"error":{"code":-32000,"message":"much","data":"`+many("d", 1<<20)+`"}}`)),
	wild("error/large-message", "Has an error with a message of a megabyte, with control characters in it.",
		answers(`{"jsonrpc":"2.0","id":$id,"error":{"code":-32000,"message":"`+many(`\u001b[31m`, 100_000)+`"}}`)),
	wild("error/code-of-the-sdk", "Answers with the code that means 'rejected by the transport' inside a well-known SDK.",
		answers(`{"jsonrpc":"2.0","id":$id,"error":{"code":-32005,"message":"rejected by transport"}}`)),
	wild("error/closed", "Answers with the code that means 'connection closed' in many SDKs.",
		answers(`{"jsonrpc":"2.0","id":$id,"error":{"code":-32000,"message":"Connection closed"}}`)),
}
