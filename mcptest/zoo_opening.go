package mcptest

import "strings"

// refusing refuses initialize, as one that speaks 2026-07-28 only.
func refusing(serve func(*creature)) func(*creature) {
	return func(c *creature) {
		c.on["initialize"] = func(c *creature, q question) {
			c.write(q.fill(`{"jsonrpc":"2.0","id":$id,"error":{"code":-32601,"message":"what is initialize?"}}` + "\n"))
		}
		serve(c)
	}
}

// What goes wrong when a client asks for the protocol, in the way of 2026-07-28.
var negotiationZoo = []Misbehaviour{
	wild("negotiation/hang", "Does not answer server/discover.", instead("server/discover", func(*creature, question) {})),
	wild("negotiation/exit", "Exits at the first method that it does not know, server/discover.", instead("server/discover", func(c *creature, _ question) { c.end(1) })),
	scripted("negotiation/killed", "Dies of server/discover.", Fault{At: StageDiscover, Do: ActionDie}),
	scripted("negotiation/close", "Closes stdout at server/discover, and lives.", Fault{At: StageDiscover, Do: ActionCloseStdout}),
	scripted("negotiation/half-line", "Answers server/discover with half a line.", Fault{At: StageDiscover, Do: ActionHalfLine}),
	wild("negotiation/half-line-unended", "Answers server/discover with half a line that does not end.", says("server/discover", `{"jsonrpc":"2.0","id":$id,"resu`)),
	wild("negotiation/plain-text", "Answers server/discover with an error in plain text.", says("server/discover", "Error: unknown method server/discover\n")),
	wild("negotiation/null-id", "Refuses server/discover without saying what it refuses.",
		says("server/discover", `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"invalid request"}}`+"\n")),
	wild("negotiation/odd-error", "Refuses server/discover with an error that is text.", says("server/discover", `{"jsonrpc":"2.0","id":$id,"error":"no"}`+"\n")),
	wild("negotiation/wrong-params", "Refuses the parameters of server/discover.",
		says("server/discover", `{"jsonrpc":"2.0","id":$id,"error":{"code":-32602,"message":"invalid params"}}`+"\n")),
	wild("negotiation/null", "Answers server/discover with null.", results("server/discover", "null")),
	wild("negotiation/text", "Answers server/discover with text.", results("server/discover", `"ok"`)),
	wild("negotiation/empty", "Answers server/discover with an empty object.", results("server/discover", `{}`)),
	wild("negotiation/as-initialize", "Answers server/discover as if it were initialize.", results("server/discover", goodInitialize)),
	wild("negotiation/broad", "Names 300,000 versions.",
		results("server/discover", strings.Replace(goodDiscover, `"2026-07-28","2025-11-25"`, `"2026-07-28"`+many(`,""`, 300_000), 1))),
	wild("negotiation/no-versions", "Says that it supports no version at all, and answers initialize.",
		results("server/discover", strings.Replace(goodDiscover, `"2026-07-28","2025-11-25"`, "", 1))),
	wild("negotiation/versions-text", "Names its versions in one text.",
		results("server/discover", strings.Replace(goodDiscover, `["2026-07-28","2025-11-25"]`, `"2026-07-28"`, 1))),
	wild("negotiation/future", "Says that it supports a version of the far future only, and answers initialize.",
		results("server/discover", strings.Replace(goodDiscover, `"2026-07-28","2025-11-25"`, `"2099-01-01"`, 1))),
	wild("negotiation/future-only", "Supports a version of the far future only, and says so to whatever it is asked.", func(c *creature) {
		answer := func(c *creature, q question) {
			c.write(q.fill(`{"jsonrpc":"2.0","id":$id,"error":{"code":-32022,"message":"unsupported","data":{"supported":["2099-01-01"],"requested":"x"}}}` + "\n"))
		}
		c.on["server/discover"], c.on["initialize"] = answer, answer
		c.serve()
	}),
	wild("negotiation/legacy-in-error", "Refuses server/discover and names versions that begin with initialize.",
		says("server/discover", `{"jsonrpc":"2.0","id":$id,"error":{"code":-32022,"message":"unsupported","data":{"supported":["2025-11-25"],"requested":"2026-07-28"}}}`+"\n")),
	wild("negotiation/circle", "Refuses version 2026-07-28 and names it as the one that it supports.",
		says("server/discover", `{"jsonrpc":"2.0","id":$id,"error":{"code":-32022,"message":"unsupported","data":{"supported":["2026-07-28"],"requested":"2026-07-28"}}}`+"\n")),
	wild("negotiation/late", "Answers server/discover only when it is asked something else.", func(c *creature) {
		var held question
		c.on["server/discover"] = func(_ *creature, q question) { held = q }
		c.on["initialize"] = func(c *creature, q question) {
			c.behave(held)
			c.behave(q)
		}
		c.serve()
	}),
	wild("negotiation/twice", "Answers server/discover twice, and the second time with an error.", instead("server/discover", func(c *creature, q question) {
		c.behave(q)
		c.write(q.fill(`{"jsonrpc":"2.0","id":$id,"error":{"code":-32601,"message":"no"}}` + "\n"))
	})),
	wild("negotiation/liar", "Says that it speaks 2026-07-28, and then refuses whatever is asked in it.", func(c *creature) {
		c.on["server/discover"] = (*creature).behave
		for _, method := range []string{"tools/list", "resources/list", "resources/templates/list", "prompts/list"} {
			c.on[method] = func(c *creature, q question) {
				c.write(q.fill(`{"jsonrpc":"2.0","id":$id,"error":{"code":-32600,"message":"server not initialized"}}` + "\n"))
			}
		}
		c.serve()
	}),
	wild("negotiation/modern-only", "Speaks 2026-07-28 only, and refuses initialize; nothing is wrong with that.", refusing((*creature).serve)),
}

// changed is the good answer to initialize with one thing replaced.
func changed(old, text string) func(*creature) {
	return results("initialize", strings.Replace(goodInitialize, old, text, 1))
}

// What goes wrong with initialize.
var handshakeZoo = []Misbehaviour{
	wild("handshake/hang", "Does not answer initialize.", instead("initialize", func(*creature, question) {})),
	wild("handshake/hang-stubborn", "Does not answer initialize, and does not end when stdin does.", instead("initialize", func(c *creature, _ question) { c.park() })),
	scripted("handshake/exit", "Exits at initialize.", Fault{At: StageInitialize, Do: ActionStderrLine, Text: "fatal: no licence"}, Fault{At: StageInitialize, Do: ActionExit, Code: 3}),
	wild("handshake/exit-in-answer", "Exits in the middle of its answer to initialize.", instead("initialize", func(c *creature, q question) {
		c.write(q.fill(`{"jsonrpc":"2.0","id":$id,"result":{"protocolVer`))
		c.end(9)
	})),
	scripted("handshake/exit-initialized", "Exits when it is told that the client is initialized.", Fault{At: StageInitialized, Do: ActionExit, Code: 4}),
	scripted("handshake/close-initialized", "Closes stdout when it is told that the client is initialized.", Fault{At: StageInitialized, Do: ActionCloseStdout}),
	wild("handshake/unknown-method", "Does not know initialize.", says("initialize", `{"jsonrpc":"2.0","id":$id,"error":{"code":-32601,"message":"method not found"}}`+"\n")),
	wild("handshake/wrong-params", "Refuses the version of initialize in its own way.",
		says("initialize", `{"jsonrpc":"2.0","id":$id,"error":{"code":-32602,"message":"Unsupported protocol version","data":{"supported":["1.0"],"requested":"2025-11-25"}}}`+"\n")),
	wild("handshake/error-text", "Refuses initialize with an error that is text.", says("initialize", `{"jsonrpc":"2.0","id":$id,"error":"go away"}`+"\n")),
	wild("handshake/neither", "Answers initialize with neither a result nor an error.", says("initialize", `{"jsonrpc":"2.0","id":$id}`+"\n")),
	wild("handshake/null-id", "Refuses initialize without saying what it refuses.", says("initialize", `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error"}}`+"\n")),
	wild("handshake/string-id", "Gives the id of initialize back as text.", says("initialize", `{"jsonrpc":"2.0","id":"$id","result":`+goodInitialize+"}\n")),
	wild("handshake/float-id", "Gives the id of initialize back as a float.", says("initialize", `{"jsonrpc":"2.0","id":$id.0,"result":`+goodInitialize+"}\n")),
	wild("handshake/twice", "Answers initialize twice, with different versions.",
		says("initialize", `{"jsonrpc":"2.0","id":$id,"result":`+goodInitialize+"}\n"+`{"jsonrpc":"2.0","id":$id,"result":{"protocolVersion":"1999-01-01"}}`+"\n")),
	wild("handshake/null", "Answers initialize with null.", results("initialize", "null")),
	wild("handshake/empty", "Answers initialize with an empty object.", results("initialize", "{}")),
	wild("handshake/array", "Answers initialize with an array.", results("initialize", "[]")),
	wild("handshake/version-unknown", "Answers initialize with a version that nobody knows.", changed("2025-11-25", "1999-01-01")),
	wild("handshake/version-modern", "Answers initialize with a version that has no initialize.", changed("2025-11-25", "2026-07-28")),
	wild("handshake/version-number", "Answers initialize with a number for a version.", changed(`"2025-11-25"`, "20251125")),
	wild("handshake/version-null", "Answers initialize with the version null.", changed(`"2025-11-25"`, "null")),
	wild("handshake/capabilities-missing", "Does not say what it can do.", results("initialize", `{"protocolVersion":"2025-11-25","serverInfo":{"name":"zoo","version":"1"}}`)),
	wild("handshake/capabilities-null", "Says null about what it can do.", changed(goodCapabilities, "null")),
	wild("handshake/capabilities-array", "Lists what it can do in an array.", changed(goodCapabilities, `["tools"]`)),
	wild("handshake/capabilities-true", "Says true for what it can do.", changed(`"tools":{}`, `"tools":true`)),
	wild("handshake/info-null", "Says null about itself.", changed(`{"name":"zoo","version":"1"}`, "null")),
	wild("handshake/info-text", "Says who it is in one text.", changed(`{"name":"zoo","version":"1"}`, `"zoo 1"`)),
	wild("handshake/info-escapes", "Has escape sequences of a terminal in its name.", changed(`"name":"zoo"`, `"name":"zoo\u001b]0;pwned\u0007\u202e\n2"`)),
	wild("handshake/instructions-large", "Has two megabytes of instructions.", changed(`"serverInfo"`, `"instructions":"`+many("Do. ", 1<<19)+`","serverInfo"`)),
	wild("handshake/instructions-number", "Has a number for instructions.", changed(`"serverInfo"`, `"instructions":12,"serverInfo"`)),
	wild("handshake/deep", "Nests its answer to initialize 100,000 levels deep.",
		changed(`"serverInfo"`, `"_meta":{"deep":`+many("[", 100_000)+many("]", 100_000)+`},"serverInfo"`)),
	wild("handshake/broad-capabilities", "Declares an experimental capability of 300,000 objects.",
		changed(goodCapabilities, `{"tools":{},"experimental":{"x":{"m":[0`+many(`,{"a":0}`, 300_000)+`]}}}`)),
	wild("handshake/broad-meta", "Answers initialize with metadata of 300,000 objects.",
		changed(`"serverInfo"`, `"_meta":{"m":[0`+many(`,{"a":0}`, 300_000)+`]},"serverInfo"`)),
	wild("handshake/oversize", "Answers initialize with more than a line may hold.", changed(`"serverInfo"`, `"instructions":"`+many("x", 2<<20)+`","serverInfo"`)),
	wild("handshake/carriage-returns", "Ends its lines as Macintoshes once did.", func(c *creature) {
		c.out = replaced{c.out, strings.NewReplacer("\n", "\r")}
		c.serve()
	}),
	wild("handshake/asks-first", "Asks four things before it answers initialize, and waits for the answers.", func(c *creature) {
		asked := question{}
		left := 4
		c.on["initialize"] = func(c *creature, q question) {
			asked = q
			for i, method := range []string{"ping", "roots/list", "sampling/createMessage", "zoo/unknown"} {
				c.write(`{"jsonrpc":"2.0","id":` + plus("1", int64(i)) + `,"method":"` + method + `","params":{}}` + "\n")
			}
		}
		c.told = func(c *creature, _ envelope) {
			if left--; left == 0 {
				c.behave(asked)
			}
		}
		c.serve()
	}),
	wild("handshake/notifies-first", "Sends 5,000 notifications before it answers initialize.", instead("initialize", func(c *creature, q question) {
		c.write(many(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"up"}}`+"\n", 5_000))
		c.behave(q)
	})),
}
