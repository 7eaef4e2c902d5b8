package hostile

import (
	"encoding/json"
	"strings"

	"github.com/mcpvisor/mcpvisor/mcptest"
)

// refusing refuses initialize, as a server that speaks 2026-07-28 only.
func refusing(serve func(*stdioServer)) func(*stdioServer) {
	return func(s *stdioServer) {
		s.handlers["initialize"] = func(s *stdioServer, r request) {
			s.write(r.fill(`{"jsonrpc":"2.0","id":$id,"error":{"code":-32601,"message":"what is initialize?"}}` + "\n"))
		}
		serve(s)
	}
}

// negotiationRows are about server/discover, the negotiation of 2026-07-28.
var negotiationRows = []Misbehaviour{
	handWritten("negotiation/hang", "Does not answer server/discover.", onMethod("server/discover", func(*stdioServer, request) {})),
	handWritten("negotiation/exit", "Exits at the first method that it does not know, server/discover.", onMethod("server/discover", func(s *stdioServer, _ request) { s.exit(1) })),
	scripted("negotiation/killed", "Dies of server/discover.", mcptest.Fault{At: mcptest.StageDiscover, Do: mcptest.ActionDie}),
	scripted("negotiation/close", "Closes stdout at server/discover, and lives.", mcptest.Fault{At: mcptest.StageDiscover, Do: mcptest.ActionCloseStdout}),
	scripted("negotiation/half-line", "Answers server/discover with half a line.", mcptest.Fault{At: mcptest.StageDiscover, Do: mcptest.ActionHalfLine}),
	handWritten("negotiation/half-line-unended", "Answers server/discover with half a line that does not end.", answersMethod("server/discover", `{"jsonrpc":"2.0","id":$id,"resu`)),
	handWritten("negotiation/plain-text", "Answers server/discover with an error in plain text.", answersMethod("server/discover", "Error: unknown method server/discover\n")),
	handWritten("negotiation/null-id", "Refuses server/discover without saying what it refuses.",
		answersMethod("server/discover", `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"invalid request"}}`+"\n")),
	handWritten("negotiation/odd-error", "Refuses server/discover with an error that is text.", answersMethod("server/discover", `{"jsonrpc":"2.0","id":$id,"error":"no"}`+"\n")),
	handWritten("negotiation/wrong-params", "Refuses the parameters of server/discover.",
		answersMethod("server/discover", `{"jsonrpc":"2.0","id":$id,"error":{"code":-32602,"message":"invalid params"}}`+"\n")),
	handWritten("negotiation/null", "Answers server/discover with null.", results("server/discover", "null")),
	handWritten("negotiation/text", "Answers server/discover with text.", results("server/discover", `"ok"`)),
	handWritten("negotiation/empty", "Answers server/discover with an empty object.", results("server/discover", `{}`)),
	handWritten("negotiation/as-initialize", "Answers server/discover as if it were initialize.", results("server/discover", goodInitialize)),
	handWritten("negotiation/broad", "Names 300,000 versions.",
		results("server/discover", strings.Replace(goodDiscover, `"2026-07-28","2025-11-25"`, `"2026-07-28"`+many(`,""`, 300_000), 1))),
	handWritten("negotiation/no-versions", "Says that it supports no version at all, and answers initialize.",
		results("server/discover", strings.Replace(goodDiscover, `"2026-07-28","2025-11-25"`, "", 1))),
	handWritten("negotiation/versions-text", "Names its versions in one text.",
		results("server/discover", strings.Replace(goodDiscover, `["2026-07-28","2025-11-25"]`, `"2026-07-28"`, 1))),
	handWritten("negotiation/future", "Says that it supports a version of the far future only, and answers initialize.",
		results("server/discover", strings.Replace(goodDiscover, `"2026-07-28","2025-11-25"`, `"2099-01-01"`, 1))),
	handWritten("negotiation/future-only", "Supports a version of the far future only, and says so to whatever it is asked.", func(s *stdioServer) {
		answer := func(s *stdioServer, r request) {
			s.write(r.fill(`{"jsonrpc":"2.0","id":$id,"error":{"code":-32022,"message":"unsupported","data":{"supported":["2099-01-01"],"requested":"x"}}}` + "\n"))
		}
		s.handlers["server/discover"], s.handlers["initialize"] = answer, answer
		s.serve()
	}),
	handWritten("negotiation/legacy-in-error", "Refuses server/discover and names versions that begin with initialize.",
		answersMethod("server/discover", `{"jsonrpc":"2.0","id":$id,"error":{"code":-32022,"message":"unsupported","data":{"supported":["2025-11-25"],"requested":"2026-07-28"}}}`+"\n")),
	handWritten("negotiation/circle", "Refuses version 2026-07-28 and names it as the one that it supports.",
		answersMethod("server/discover", `{"jsonrpc":"2.0","id":$id,"error":{"code":-32022,"message":"unsupported","data":{"supported":["2026-07-28"],"requested":"2026-07-28"}}}`+"\n")),
	handWritten("negotiation/late", "Answers server/discover only when it is asked something else.", func(s *stdioServer) {
		var held request
		s.handlers["server/discover"] = func(_ *stdioServer, r request) { held = r }
		s.handlers["initialize"] = func(s *stdioServer, r request) {
			s.answerWell(held)
			s.answerWell(r)
		}
		s.serve()
	}),
	handWritten("negotiation/twice", "Answers server/discover twice, and the second time with an error.", onMethod("server/discover", func(s *stdioServer, r request) {
		s.answerWell(r)
		s.write(r.fill(`{"jsonrpc":"2.0","id":$id,"error":{"code":-32601,"message":"no"}}` + "\n"))
	})),
	handWritten("negotiation/liar", "Says that it speaks 2026-07-28, and then refuses whatever is asked in it.", func(s *stdioServer) {
		s.handlers["server/discover"] = (*stdioServer).answerWell
		for _, method := range []string{"tools/list", "resources/list", "resources/templates/list", "prompts/list"} {
			s.handlers[method] = func(s *stdioServer, r request) {
				s.write(r.fill(`{"jsonrpc":"2.0","id":$id,"error":{"code":-32600,"message":"server not initialized"}}` + "\n"))
			}
		}
		s.serve()
	}),
	handWritten("negotiation/modern-only", "Speaks 2026-07-28 only, and refuses initialize; nothing is wrong with that.", refusing((*stdioServer).serve)),
}

// changed gives the good answer to initialize with one text replaced.
func changed(old, text string) func(*stdioServer) {
	return results("initialize", strings.Replace(goodInitialize, old, text, 1))
}

// handshakeRows are about initialize.
var handshakeRows = []Misbehaviour{
	handWritten("handshake/hang", "Does not answer initialize.", onMethod("initialize", func(*stdioServer, request) {})),
	handWritten("handshake/hang-stubborn", "Does not answer initialize, and does not end when stdin does.", onMethod("initialize", func(s *stdioServer, _ request) { s.park() })),
	scripted("handshake/exit", "Exits at initialize.", mcptest.Fault{At: mcptest.StageInitialize, Do: mcptest.ActionStderrLine, Text: "fatal: no licence"}, mcptest.Fault{At: mcptest.StageInitialize, Do: mcptest.ActionExit, Code: 3}),
	handWritten("handshake/exit-in-answer", "Exits in the middle of its answer to initialize.", onMethod("initialize", func(s *stdioServer, r request) {
		s.write(r.fill(`{"jsonrpc":"2.0","id":$id,"result":{"protocolVer`))
		s.exit(9)
	})),
	scripted("handshake/exit-initialized", "Exits when it is told that the client is initialized.", mcptest.Fault{At: mcptest.StageInitialized, Do: mcptest.ActionExit, Code: 4}),
	scripted("handshake/close-initialized", "Closes stdout when it is told that the client is initialized.", mcptest.Fault{At: mcptest.StageInitialized, Do: mcptest.ActionCloseStdout}),
	handWritten("handshake/unknown-method", "Does not know initialize.", answersMethod("initialize", `{"jsonrpc":"2.0","id":$id,"error":{"code":-32601,"message":"method not found"}}`+"\n")),
	handWritten("handshake/wrong-params", "Refuses the version of initialize in its own way.",
		answersMethod("initialize", `{"jsonrpc":"2.0","id":$id,"error":{"code":-32602,"message":"Unsupported protocol version","data":{"supported":["1.0"],"requested":"2025-11-25"}}}`+"\n")),
	handWritten("handshake/error-text", "Refuses initialize with an error that is text.", answersMethod("initialize", `{"jsonrpc":"2.0","id":$id,"error":"go away"}`+"\n")),
	handWritten("handshake/neither", "Answers initialize with neither a result nor an error.", answersMethod("initialize", `{"jsonrpc":"2.0","id":$id}`+"\n")),
	handWritten("handshake/null-id", "Refuses initialize without saying what it refuses.", answersMethod("initialize", `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error"}}`+"\n")),
	handWritten("handshake/string-id", "Gives the id of initialize back as text.", answersMethod("initialize", `{"jsonrpc":"2.0","id":"$id","result":`+goodInitialize+"}\n")),
	handWritten("handshake/float-id", "Gives the id of initialize back as a float.", answersMethod("initialize", `{"jsonrpc":"2.0","id":$id.0,"result":`+goodInitialize+"}\n")),
	handWritten("handshake/twice", "Answers initialize twice, with different versions.",
		answersMethod("initialize", `{"jsonrpc":"2.0","id":$id,"result":`+goodInitialize+"}\n"+`{"jsonrpc":"2.0","id":$id,"result":{"protocolVersion":"1999-01-01"}}`+"\n")),
	handWritten("handshake/null", "Answers initialize with null.", results("initialize", "null")),
	handWritten("handshake/empty", "Answers initialize with an empty object.", results("initialize", "{}")),
	handWritten("handshake/array", "Answers initialize with an array.", results("initialize", "[]")),
	handWritten("handshake/version-unknown", "Answers initialize with an unknown version.", changed("2025-11-25", "1999-01-01")),
	handWritten("handshake/version-modern", "Answers initialize with a version that has no initialize.", changed("2025-11-25", "2026-07-28")),
	handWritten("handshake/version-number", "Answers initialize with a number for a version.", changed(`"2025-11-25"`, "20251125")),
	handWritten("handshake/version-null", "Answers initialize with the version null.", changed(`"2025-11-25"`, "null")),
	handWritten("handshake/capabilities-missing", "Does not say what it can do.", results("initialize", `{"protocolVersion":"2025-11-25","serverInfo":{"name":"hostile","version":"1"}}`)),
	handWritten("handshake/capabilities-null", "Says null about what it can do.", changed(goodCapabilities, "null")),
	handWritten("handshake/capabilities-array", "Lists what it can do in an array.", changed(goodCapabilities, `["tools"]`)),
	handWritten("handshake/capabilities-true", "Says true for what it can do.", changed(`"tools":{}`, `"tools":true`)),
	handWritten("handshake/info-null", "Says null about itself.", changed(`{"name":"hostile","version":"1"}`, "null")),
	handWritten("handshake/info-text", "Says who it is in one text.", changed(`{"name":"hostile","version":"1"}`, `"hostile 1"`)),
	handWritten("handshake/info-escapes", "Has escape sequences of a terminal in its name.", changed(`"name":"hostile"`, `"name":"hostile\u001b]0;pwned\u0007\u202e\n2"`)),
	handWritten("handshake/instructions-large", "Has two megabytes of instructions.", changed(`"serverInfo"`, `"instructions":"`+many("Do. ", 1<<19)+`","serverInfo"`)),
	handWritten("handshake/instructions-number", "Has a number for instructions.", changed(`"serverInfo"`, `"instructions":12,"serverInfo"`)),
	handWritten("handshake/deep", "Nests its answer to initialize 100,000 levels deep.",
		changed(`"serverInfo"`, `"_meta":{"deep":`+many("[", 100_000)+many("]", 100_000)+`},"serverInfo"`)),
	handWritten("handshake/broad-capabilities", "Declares an experimental capability of 300,000 objects.",
		changed(goodCapabilities, `{"tools":{},"experimental":{"x":{"m":[0`+many(`,{"a":0}`, 300_000)+`]}}}`)),
	handWritten("handshake/broad-meta", "Answers initialize with metadata of 300,000 objects.",
		changed(`"serverInfo"`, `"_meta":{"m":[0`+many(`,{"a":0}`, 300_000)+`]},"serverInfo"`)),
	handWritten("handshake/oversize", "Answers initialize with more than a line may hold.", changed(`"serverInfo"`, `"instructions":"`+many("x", 2<<20)+`","serverInfo"`)),
	handWritten("handshake/carriage-returns", "Ends its lines as Macintoshes once did.", func(s *stdioServer) {
		s.out = replacingWriter{s.out, strings.NewReplacer("\n", "\r")}
		s.serve()
	}),
	handWritten("handshake/asks-first", "Asks four things before it answers initialize, and waits for the answers.", func(s *stdioServer) {
		asked := request{}
		left := 4
		s.handlers["initialize"] = func(s *stdioServer, r request) {
			asked = r
			for i, method := range []string{"ping", "roots/list", "sampling/createMessage", "hostile/unknown"} {
				s.write(`{"jsonrpc":"2.0","id":` + plus("1", int64(i)) + `,"method":"` + method + `","params":{}}` + "\n")
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
		s.write(many(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"up"}}`+"\n", 5_000))
		s.answerWell(r)
	})),
}
