package hostilehttp

// onDiscover is what happens to server/discover at a server that knows
// initialize alone.
func onDiscover(name, about string, do handler) Misbehaviour {
	return legacyOnly(whenever(name, about, do, "server/discover"))
}

// versionMisbehaviours are about finding out which era a server lives in.
var versionMisbehaviours = []Misbehaviour{
	onDiscover("version/discover-400", "Answers server/discover with 400, because of the version in the header.", func(req *request) {
		req.reply(400, "text/plain", "Bad Request: Unsupported protocol version (supported versions: 2025-11-25, 2025-06-18)")
	}),
	onDiscover("version/discover-rpc-400", "Answers server/discover with a JSON-RPC error about the version under 400.",
		rpcStatus(400, -32000, "Bad Request: Unsupported protocol version", false)),
	onDiscover("version/discover-session-400", "Answers server/discover with 400, because it has no session.",
		rpcStatus(400, -32000, "Bad Request: Server not initialized", false)),
	onDiscover("version/discover-404", "Answers server/discover with 404.", plainStatus(404)),
	onDiscover("version/discover-405", "Answers server/discover with 405.", plainStatus(405)),
	onDiscover("version/discover-500", "Answers server/discover with 500.", plainStatus(500)),
	onDiscover("version/discover-html", "Answers server/discover with a web page.", func(req *request) { req.reply(200, "text/html", webPage) }),
	onDiscover("version/discover-202", "Accepts server/discover and does not answer it.", plainStatus(202)),
	onDiscover("version/discover-hang", "Never answers server/discover.", (*request).hang),
	onDiscover("version/discover-stalled", "Answers half of server/discover.", func(req *request) {
		req.begin(200, "application/json", req.answer()[:20])
		req.hang()
	}),
	onDiscover("version/discover-reset", "Resets the connection of server/discover.", func(req *request) { req.raw((*rawConn).reset) }),
	onDiscover("version/discover-switching", "Says 101 Switching Protocols to server/discover.", switching),
	onDiscover("version/discover-endless", "Answers server/discover with JSON that never ends.", func(req *request) {
		req.begin(200, "application/json", `{"result":"`)
		req.flood("abcdefgh")
	}),
	onDiscover("version/discover-null", "Answers server/discover with null.", func(req *request) { req.say(req.resultMessage("null")) }),
	onDiscover("version/discover-initialize", "Answers server/discover as if it were initialize.", func(req *request) {
		req.say(req.resultMessage(`{"protocolVersion":"2025-11-25",` + goodCapabilities + `,` + goodInfo + `}`))
	}),
	onDiscover("version/discover-old", "Answers server/discover, and supports only versions that have none.", func(req *request) {
		req.say(req.resultMessage(`{"supportedVersions":["2025-11-25","2025-06-18"],` + goodCapabilities + `,` + goodInfo + `}`))
	}),
	whenever("version/discover-busy", "Answers the first server/discover with an error that will pass.", func(req *request) {
		if req.nth == 1 {
			req.sayError(200, -32603, "still starting up")
			return
		}
		req.answerWell()
	}, "server/discover"),
	{Name: "version/future", About: "Supports a version of the future only, in both ways of asking.", handlers: func() handlers {
		return handlers{
			"server/discover": func(req *request) {
				req.reply(400, "application/json", `{"jsonrpc":"2.0","id":`+string(req.id)+
					`,"error":{"code":-32022,"message":"Unsupported protocol version","data":{"supported":["2099-01-01"],"requested":"2026-07-28"}}}`)
			},
			"initialize": initialized(`{"protocolVersion":"2099-01-01",` + goodCapabilities + `,` + goodInfo + `}`),
		}
	}},
	whenever("version/flips", "Speaks 2026-07-28 until it is called, and then says that it never did.", func(req *request) {
		req.reply(400, "application/json", `{"jsonrpc":"2.0","id":`+string(req.id)+
			`,"error":{"code":-32022,"message":"Unsupported protocol version","data":{"supported":["2025-11-25"],"requested":"2026-07-28"}}}`)
	}, "misbehave"),
	whenever("version/header-mismatch", "Finds fault with the headers of a call that are right.", func(req *request) {
		req.reply(400, "application/json", req.errorMessage(string(req.id), -32020, "Header mismatch: Mcp-Name"))
	}, "misbehave"),
	whenever("version/session-anyway", "Creates sessions in the era without sessions.", func(req *request) {
		req.w.Header().Set("Mcp-Session-Id", "unrequested")
		if req.http.Header.Get("Mcp-Session-Id") == "unrequested" {
			req.reply(418, "text/plain", "I did not mean it")
			return
		}
		req.answerWell()
	}, "server/discover", "tools/list", "misbehave"),
	whenever("version/no-result-type", "Leaves out resultType.", func(req *request) {
		req.say(req.resultMessage(`{"content":[{"type":"text","text":"fine"}]}`))
	}, "misbehave"),
	whenever("version/unknown-result-type", "Sends a resultType of its own.", func(req *request) {
		req.say(req.resultMessage(`{"resultType":"riddle","content":[{"type":"text","text":"what am I?"}]}`))
	}, "misbehave"),
}

// onList is what happens to tools/list.
func onList(name, about string, do handler) Misbehaviour {
	return whenever(name, about, do, "tools/list")
}

// onLists is what happens to all of its lists.
func onLists(name, about string, do handler) Misbehaviour {
	return whenever(name, about, do, "tools/list", "resources/list", "resources/templates/list")
}

// answerList answers tools/list with these members of the result.
func answerList(members string) handler {
	return func(req *request) { req.say(req.resultMessage("{" + members + "}")) }
}

// listMisbehaviours are about listing the tools.
var listMisbehaviours = []Misbehaviour{
	onList("list/stalled-page", "Never answers the second page of its tools.", func(req *request) {
		if req.params.Cursor != "" {
			req.hang()
			return
		}
		answerList(`"tools":[` + goodTools + `],"nextCursor":"two"`)(req)
	}),
	onList("list/once-500", "Fails at its list the first time.", func(req *request) {
		if req.nth == 1 {
			plainStatus(500)(req)
			return
		}
		req.answerWell()
	}),
	onList("list/once-html-502", "Is behind a gateway that fails the first time.", func(req *request) {
		if req.nth == 1 {
			req.reply(502, "text/html", webPage)
			return
		}
		req.answerWell()
	}),
	onList("list/500", "Fails at its list each time.", plainStatus(500)),
	onLists("list/401", "Wants credentials for its lists.", plainStatus(401)),
	onLists("list/html", "Lists a web page, whatever is asked for.", func(req *request) { req.reply(200, "text/html", webPage) }),
	onList("list/202", "Accepts the question for its list, and does not answer it.", plainStatus(202)),
	onList("list/endless", "Has always another page.", func(req *request) {
		answerList(`"tools":[` + goodTools + `],"nextCursor":"` + req.params.Cursor + `+"`)(req)
	}),
	onList("list/same-cursor", "Gives the same cursor with each page.", answerList(`"tools":[`+goodTools+`],"nextCursor":"again"`)),
	onList("list/cursor-number", "Gives a cursor that is a number.", answerList(`"tools":[`+goodTools+`],"nextCursor":2`)),
	onList("list/null", "Lists null.", answerList(`"tools":null`)),
	onList("list/bad-entries", "Lists things that are not tools, beside its tools.",
		answerList(`"tools":[null,7,"x",{},{"name":12},{"name":"bad","inputSchema":"none"},`+goodTools+`]`)),
	onList("list/second-page-500", "Fails at the second page of its tools.", func(req *request) {
		if req.params.Cursor != "" {
			plainStatus(500)(req)
			return
		}
		answerList(`"tools":[` + goodTools + `],"nextCursor":"two"`)(req)
	}),
	onList("list/cut", "Cuts the connection in the middle of its list.", func(req *request) {
		rawReply("200 OK", []string{"Content-Type: application/json", "Content-Length: 5000"}, req.answer())(req)
	}),
}
