package hostile

import (
	"encoding/json"
	"strings"

	"github.com/mcpvisor/mcpvisor/mcptest"
)

// rejectsInitialize rejects initialize, as a server does that speaks only 2026-07-28.
func rejectsInitialize(serve func(*stdioServer)) func(*stdioServer) {
	return func(s *stdioServer) {
		s.handlers["initialize"] = func(s *stdioServer, r request) {
			s.write(r.expandPlaceholders(`{"jsonrpc":"2.0","id":$id,"error":{"code":-32601,"message":"what is initialize?"}}` + "\n"))
		}
		serve(s)
	}
}

// negotiationRows are about server/discover, the negotiation of 2026-07-28.
var negotiationRows = []Misbehaviour{
	handWritten("negotiation/hang", "Never answers server/discover, but would answer initialize.", onMethod("server/discover", func(*stdioServer, request) {})),
	handWritten("negotiation/exit", "Exits when it receives server/discover, a method that it does not know.", onMethod("server/discover", func(s *stdioServer, _ request) { s.exit(1) })),
	scripted("negotiation/killed", "Is killed by SIGKILL when it receives server/discover.", mcptest.Fault{At: mcptest.StageDiscover, Do: mcptest.ActionDie}),
	scripted("negotiation/close", "Closes stdout when it receives server/discover, but does not exit.", mcptest.Fault{At: mcptest.StageDiscover, Do: mcptest.ActionCloseStdout}),
	scripted("negotiation/half-line", "Answers server/discover with half a line.", mcptest.Fault{At: mcptest.StageDiscover, Do: mcptest.ActionHalfLine}),
	handWritten("negotiation/half-line-unended", "Answers server/discover with half a line and no line feed.", answersMethod("server/discover", `{"jsonrpc":"2.0","id":$id,"resu`)),
	handWritten("negotiation/plain-text", "Answers server/discover with an error message in plain text.", answersMethod("server/discover", "Error: unknown method server/discover\n")),
	handWritten("negotiation/null-id", "Rejects server/discover with an error whose id is null, so only the timing relates it to the request.",
		answersMethod("server/discover", `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"invalid request"}}`+"\n")),
	handWritten("negotiation/odd-error", "Rejects server/discover with an error that is a string.", answersMethod("server/discover", `{"jsonrpc":"2.0","id":$id,"error":"no"}`+"\n")),
	handWritten("negotiation/wrong-params", "Rejects the parameters of server/discover as invalid.",
		answersMethod("server/discover", `{"jsonrpc":"2.0","id":$id,"error":{"code":-32602,"message":"invalid params"}}`+"\n")),
	handWritten("negotiation/null", "Answers server/discover with null.", results("server/discover", "null")),
	handWritten("negotiation/text", "Answers server/discover with a string.", results("server/discover", `"ok"`)),
	handWritten("negotiation/empty", "Answers server/discover with an empty object.", results("server/discover", `{}`)),
	handWritten("negotiation/as-initialize", "Answers server/discover with the result of initialize.", results("server/discover", goodInitialize)),
	handWritten("negotiation/broad", "Answers server/discover with 300,000 supported versions.",
		results("server/discover", strings.Replace(goodDiscover, `"2026-07-28","2025-11-25"`, `"2026-07-28"`+repeated(`,""`, 300_000), 1))),
	handWritten("negotiation/no-versions", "Answers server/discover with an empty list of versions, yet answers initialize.",
		results("server/discover", strings.Replace(goodDiscover, `"2026-07-28","2025-11-25"`, "", 1))),
	handWritten("negotiation/versions-text", "Answers server/discover with its version as a string instead of a list.",
		results("server/discover", strings.Replace(goodDiscover, `["2026-07-28","2025-11-25"]`, `"2026-07-28"`, 1))),
	handWritten("negotiation/future", "Answers server/discover with a version of the far future only, yet answers initialize.",
		results("server/discover", strings.Replace(goodDiscover, `"2026-07-28","2025-11-25"`, `"2099-01-01"`, 1))),
	handWritten("negotiation/future-only", "Rejects both server/discover and initialize, and supports a version of the far future only.", func(s *stdioServer) {
		answer := func(s *stdioServer, r request) {
			s.write(r.expandPlaceholders(`{"jsonrpc":"2.0","id":$id,"error":{"code":-32022,"message":"unsupported","data":{"supported":["2099-01-01"],"requested":"x"}}}` + "\n"))
		}
		s.handlers["server/discover"], s.handlers["initialize"] = answer, answer
		s.serve()
	}),
	handWritten("negotiation/legacy-in-error", "Rejects server/discover with error -32022, which lists only versions that begin with initialize.",
		answersMethod("server/discover", `{"jsonrpc":"2.0","id":$id,"error":{"code":-32022,"message":"unsupported","data":{"supported":["2025-11-25"],"requested":"2026-07-28"}}}`+"\n")),
	handWritten("negotiation/circle", "Rejects version 2026-07-28 and lists the same version as supported, which exposes clients that retry forever.",
		answersMethod("server/discover", `{"jsonrpc":"2.0","id":$id,"error":{"code":-32022,"message":"unsupported","data":{"supported":["2026-07-28"],"requested":"2026-07-28"}}}`+"\n")),
	handWritten("negotiation/late", "Answers server/discover only after it has received initialize.", func(s *stdioServer) {
		var held request
		s.handlers["server/discover"] = func(_ *stdioServer, r request) { held = r }
		s.handlers["initialize"] = func(s *stdioServer, r request) {
			s.answerWell(held)
			s.answerWell(r)
		}
		s.serve()
	}),
	handWritten("negotiation/twice", "Answers server/discover with a result, and then again with an error.", onMethod("server/discover", func(s *stdioServer, r request) {
		s.answerWell(r)
		s.write(r.expandPlaceholders(`{"jsonrpc":"2.0","id":$id,"error":{"code":-32601,"message":"no"}}` + "\n"))
	})),
	handWritten("negotiation/liar", "Answers server/discover with 2026-07-28 but then rejects every list request of that version.", func(s *stdioServer) {
		s.handlers["server/discover"] = (*stdioServer).answerWell
		for _, method := range []string{"tools/list", "resources/list", "resources/templates/list", "prompts/list"} {
			s.handlers[method] = func(s *stdioServer, r request) {
				s.write(r.expandPlaceholders(`{"jsonrpc":"2.0","id":$id,"error":{"code":-32600,"message":"server not initialized"}}` + "\n"))
			}
		}
		s.serve()
	}),
	handWritten("negotiation/modern-only", "Speaks only 2026-07-28 and rejects initialize, which is correct behaviour.", rejectsInitialize((*stdioServer).serve)),
}

// changedInitialize answers initialize correctly, with one text replaced.
func changedInitialize(old, text string) func(*stdioServer) {
	return results("initialize", strings.Replace(goodInitialize, old, text, 1))
}

// handshakeRows are about initialize.
var handshakeRows = []Misbehaviour{
	handWritten("handshake/hang", "Never answers initialize.", onMethod("initialize", func(*stdioServer, request) {})),
	handWritten("handshake/hang-stubborn", "Never answers initialize and does not exit when stdin is closed.", onMethod("initialize", func(s *stdioServer, _ request) { s.waitForever() })),
	scripted("handshake/exit", "Writes the reason to stderr and exits with status 3 when it receives initialize.", mcptest.Fault{At: mcptest.StageInitialize, Do: mcptest.ActionStderrLine, Text: "fatal: no licence"}, mcptest.Fault{At: mcptest.StageInitialize, Do: mcptest.ActionExit, Code: 3}),
	handWritten("handshake/exit-in-answer", "Exits in the middle of its answer to initialize.", onMethod("initialize", func(s *stdioServer, r request) {
		s.write(r.expandPlaceholders(`{"jsonrpc":"2.0","id":$id,"result":{"protocolVer`))
		s.exit(9)
	})),
	scripted("handshake/exit-initialized", "Exits when it receives notifications/initialized.", mcptest.Fault{At: mcptest.StageInitialized, Do: mcptest.ActionExit, Code: 4}),
	scripted("handshake/close-initialized", "Closes stdout when it receives notifications/initialized, but does not exit.", mcptest.Fault{At: mcptest.StageInitialized, Do: mcptest.ActionCloseStdout}),
	handWritten("handshake/unknown-method", "Rejects initialize as an unknown method.", answersMethod("initialize", `{"jsonrpc":"2.0","id":$id,"error":{"code":-32601,"message":"method not found"}}`+"\n")),
	handWritten("handshake/wrong-params", "Rejects the version of initialize and supports only a version in a format of its own.",
		answersMethod("initialize", `{"jsonrpc":"2.0","id":$id,"error":{"code":-32602,"message":"Unsupported protocol version","data":{"supported":["1.0"],"requested":"2025-11-25"}}}`+"\n")),
	handWritten("handshake/error-text", "Rejects initialize with an error that is a string.", answersMethod("initialize", `{"jsonrpc":"2.0","id":$id,"error":"go away"}`+"\n")),
	handWritten("handshake/error-data", "Rejects initialize with an error that carries a megabyte of data.",
		answersMethod("initialize", `{"jsonrpc":"2.0","id":$id,"error":{"code":-32603,"message":"much","data":"`+repeated("d", 1<<20)+`"}}`+"\n")),
	handWritten("handshake/neither", "Answers initialize with neither a result nor an error.", answersMethod("initialize", `{"jsonrpc":"2.0","id":$id}`+"\n")),
	handWritten("handshake/null-id", "Rejects initialize with an error whose id is null.", answersMethod("initialize", `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error"}}`+"\n")),
	handWritten("handshake/string-id", "Returns the id of initialize as a string.", answersMethod("initialize", `{"jsonrpc":"2.0","id":"$id","result":`+goodInitialize+"}\n")),
	handWritten("handshake/float-id", "Returns the id of initialize as a float, such as 1.0.", answersMethod("initialize", `{"jsonrpc":"2.0","id":$id.0,"result":`+goodInitialize+"}\n")),
	handWritten("handshake/twice", "Answers initialize twice, with different protocol versions.",
		answersMethod("initialize", `{"jsonrpc":"2.0","id":$id,"result":`+goodInitialize+"}\n"+`{"jsonrpc":"2.0","id":$id,"result":{"protocolVersion":"1999-01-01"}}`+"\n")),
	handWritten("handshake/null", "Answers initialize with null.", results("initialize", "null")),
	handWritten("handshake/empty", "Answers initialize with an empty object.", results("initialize", "{}")),
	handWritten("handshake/array", "Answers initialize with an array.", results("initialize", "[]")),
	handWritten("handshake/version-unknown", "Answers initialize with the unknown protocol version 1999-01-01.", changedInitialize("2025-11-25", "1999-01-01")),
	handWritten("handshake/version-modern", "Answers initialize with 2026-07-28, a version that has no initialize.", changedInitialize("2025-11-25", "2026-07-28")),
	handWritten("handshake/version-number", "Answers initialize with a protocol version that is a number.", changedInitialize(`"2025-11-25"`, "20251125")),
	handWritten("handshake/version-null", "Answers initialize with a protocol version that is null.", changedInitialize(`"2025-11-25"`, "null")),
	handWritten("handshake/capabilities-missing", "Answers initialize without capabilities.", results("initialize", `{"protocolVersion":"2025-11-25","serverInfo":{"name":"hostile","version":"1"}}`)),
	handWritten("handshake/capabilities-null", "Answers initialize with capabilities that are null.", changedInitialize(goodCapabilities, "null")),
	handWritten("handshake/capabilities-array", "Declares its capabilities as an array.", changedInitialize(goodCapabilities, `["tools"]`)),
	handWritten("handshake/capabilities-true", "Declares the capability tools as true instead of an object.", changedInitialize(`"tools":{}`, `"tools":true`)),
	handWritten("handshake/info-null", "Answers initialize with serverInfo that is null.", changedInitialize(`{"name":"hostile","version":"1"}`, "null")),
	handWritten("handshake/info-text", "Answers initialize with serverInfo that is a string.", changedInitialize(`{"name":"hostile","version":"1"}`, `"hostile 1"`)),
	handWritten("handshake/info-escapes", "Puts terminal escape sequences into its name, which exposes clients that print it as it is.", changedInitialize(`"name":"hostile"`, `"name":"hostile\u001b]0;pwned\u0007\u202e\n2"`)),
	handWritten("handshake/instructions-large", "Answers initialize with two megabytes of instructions.", changedInitialize(`"serverInfo"`, `"instructions":"`+repeated("Do. ", 1<<19)+`","serverInfo"`)),
	handWritten("handshake/instructions-number", "Answers initialize with instructions that are a number.", changedInitialize(`"serverInfo"`, `"instructions":12,"serverInfo"`)),
	handWritten("handshake/deep", "Nests its answer to initialize 100,000 levels deep.",
		changedInitialize(`"serverInfo"`, `"_meta":{"deep":`+repeated("[", 100_000)+repeated("]", 100_000)+`},"serverInfo"`)),
	handWritten("handshake/broad-capabilities", "Declares an experimental capability that holds 300,000 objects.",
		changedInitialize(goodCapabilities, `{"tools":{},"experimental":{"x":{"m":[0`+repeated(`,{"a":0}`, 300_000)+`]}}}`)),
	handWritten("handshake/broad-meta", "Answers initialize with _meta that holds 300,000 objects.",
		changedInitialize(`"serverInfo"`, `"_meta":{"m":[0`+repeated(`,{"a":0}`, 300_000)+`]},"serverInfo"`)),
	handWritten("handshake/oversize", "Answers initialize with a line that exceeds the message limit.", changedInitialize(`"serverInfo"`, `"instructions":"`+repeated("x", 2<<20)+`","serverInfo"`)),
	handWritten("handshake/carriage-returns", "Ends its lines with a carriage return only.", func(s *stdioServer) {
		s.out = replacingWriter{s.out, strings.NewReplacer("\n", "\r")}
		s.serve()
	}),
	handWritten("handshake/asks-first", "Sends four requests before it answers initialize and waits for their answers, which exposes clients that read only one message.", func(s *stdioServer) {
		asked := request{}
		left := 4
		s.handlers["initialize"] = func(s *stdioServer, r request) {
			asked = r
			for i, method := range []string{"ping", "roots/list", "sampling/createMessage", "hostile/unknown"} {
				s.write(`{"jsonrpc":"2.0","id":` + addToID("1", int64(i)) + `,"method":"` + method + `","params":{}}` + "\n")
			}
		}
		s.onAnswer = func(s *stdioServer, _ json.RawMessage) {
			if left--; left == 0 {
				s.answerWell(asked)
			}
		}
		s.serve()
	}),
	handWritten("handshake/notifies-first", "Sends 5,000 notifications before it answers initialize.", onMethod("initialize", func(s *stdioServer, r request) {
		s.write(repeated(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"up"}}`+"\n", 5_000))
		s.answerWell(r)
	})),
}
