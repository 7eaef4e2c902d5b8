package mcptest

// onDiscover is what happens to server/discover at a server that knows
// initialize alone.
func onDiscover(name, about string, do act) HTTPMisbehaviour {
	return oldFashioned(whenever(name, about, do, "server/discover"))
}

// versionMisbehaviours are about finding out which era a server lives in.
var versionMisbehaviours = []HTTPMisbehaviour{
	onDiscover("version/discover-400", "Answers server/discover with 400, because of the version in the header.", func(v *visit) {
		v.reply(400, "text/plain", "Bad Request: Unsupported protocol version (supported versions: 2025-11-25, 2025-06-18)")
	}),
	onDiscover("version/discover-rpc-400", "Answers server/discover with a JSON-RPC error about the version under 400.",
		rpcStatus(400, -32000, "Bad Request: Unsupported protocol version", false)),
	onDiscover("version/discover-session-400", "Answers server/discover with 400, because it has no session.",
		rpcStatus(400, -32000, "Bad Request: Server not initialized", false)),
	onDiscover("version/discover-404", "Answers server/discover with 404.", plainStatus(404)),
	onDiscover("version/discover-405", "Answers server/discover with 405.", plainStatus(405)),
	onDiscover("version/discover-500", "Answers server/discover with 500.", plainStatus(500)),
	onDiscover("version/discover-html", "Answers server/discover with a web page.", func(v *visit) { v.reply(200, "text/html", zooPage) }),
	onDiscover("version/discover-202", "Accepts server/discover and does not answer it.", plainStatus(202)),
	onDiscover("version/discover-hang", "Never answers server/discover.", (*visit).hang),
	onDiscover("version/discover-stalled", "Answers half of server/discover.", func(v *visit) {
		v.begin(200, "application/json", v.answer()[:20])
		v.hang()
	}),
	onDiscover("version/discover-reset", "Resets the connection of server/discover.", func(v *visit) { v.bare((*bareConn).reset) }),
	onDiscover("version/discover-switching", "Says 101 Switching Protocols to server/discover.", switching),
	onDiscover("version/discover-endless", "Answers server/discover with JSON that never ends.", func(v *visit) {
		v.begin(200, "application/json", `{"result":"`)
		v.flood("abcdefgh")
	}),
	onDiscover("version/discover-null", "Answers server/discover with null.", func(v *visit) { v.say(v.resultMessage("null")) }),
	onDiscover("version/discover-initialize", "Answers server/discover as if it were initialize.", func(v *visit) {
		v.say(v.resultMessage(`{"protocolVersion":"2025-11-25",` + zooCapabilities + `,` + zooInfo + `}`))
	}),
	onDiscover("version/discover-old", "Answers server/discover, and supports only versions that have none.", func(v *visit) {
		v.say(v.resultMessage(`{"supportedVersions":["2025-11-25","2025-06-18"],` + zooCapabilities + `,` + zooInfo + `}`))
	}),
	whenever("version/discover-busy", "Answers the first server/discover with an error that will pass.", func(v *visit) {
		if v.nth == 1 {
			v.sayError(200, -32603, "still starting up")
			return
		}
		v.behave()
	}, "server/discover"),
	{Name: "version/future", About: "Supports a version of the future only, in both ways of asking.", habits: func() habits {
		return habits{
			"server/discover": func(v *visit) {
				v.reply(400, "application/json", `{"jsonrpc":"2.0","id":`+string(v.id)+
					`,"error":{"code":-32022,"message":"Unsupported protocol version","data":{"supported":["2099-01-01"],"requested":"2026-07-28"}}}`)
			},
			"initialize": initialized(`{"protocolVersion":"2099-01-01",` + zooCapabilities + `,` + zooInfo + `}`),
		}
	}},
	whenever("version/flips", "Speaks 2026-07-28 until it is called, and then says that it never did.", func(v *visit) {
		v.reply(400, "application/json", `{"jsonrpc":"2.0","id":`+string(v.id)+
			`,"error":{"code":-32022,"message":"Unsupported protocol version","data":{"supported":["2025-11-25"],"requested":"2026-07-28"}}}`)
	}, "misbehave"),
	whenever("version/header-mismatch", "Finds fault with the headers of a call that are right.", func(v *visit) {
		v.reply(400, "application/json", v.errorMessage(string(v.id), -32020, "Header mismatch: Mcp-Name"))
	}, "misbehave"),
	whenever("version/session-anyway", "Gives out sessions where there are none.", func(v *visit) {
		v.w.Header().Set("Mcp-Session-Id", "nobody-asked")
		if v.r.Header.Get("Mcp-Session-Id") == "nobody-asked" {
			v.reply(418, "text/plain", "I did not mean it")
			return
		}
		v.behave()
	}, "server/discover", "tools/list", "misbehave"),
	whenever("version/no-result-type", "Leaves out resultType.", func(v *visit) {
		v.say(v.resultMessage(`{"content":[{"type":"text","text":"fine"}]}`))
	}, "misbehave"),
	whenever("version/unknown-result-type", "Sends a resultType of its own.", func(v *visit) {
		v.say(v.resultMessage(`{"resultType":"riddle","content":[{"type":"text","text":"what am I?"}]}`))
	}, "misbehave"),
}

// onList is what happens to tools/list.
func onList(name, about string, do act) HTTPMisbehaviour {
	return whenever(name, about, do, "tools/list")
}

// onLists is what happens to all of its lists.
func onLists(name, about string, do act) HTTPMisbehaviour {
	return whenever(name, about, do, "tools/list", "resources/list", "resources/templates/list")
}

// zooList answers tools/list with these members of the result.
func zooList(members string) act {
	return func(v *visit) { v.say(v.resultMessage("{" + members + "}")) }
}

// listMisbehaviours are about listing the tools.
var listMisbehaviours = []HTTPMisbehaviour{
	onList("list/stalled-page", "Never answers the second page of its tools.", func(v *visit) {
		if v.params.Cursor != "" {
			v.hang()
			return
		}
		zooList(`"tools":[` + zooTools + `],"nextCursor":"two"`)(v)
	}),
	onList("list/once-500", "Fails at its list the first time.", func(v *visit) {
		if v.nth == 1 {
			plainStatus(500)(v)
			return
		}
		v.behave()
	}),
	onList("list/once-html-502", "Is behind a gateway that fails the first time.", func(v *visit) {
		if v.nth == 1 {
			v.reply(502, "text/html", zooPage)
			return
		}
		v.behave()
	}),
	onList("list/500", "Fails at its list each time.", plainStatus(500)),
	onLists("list/401", "Wants credentials for its lists.", plainStatus(401)),
	onLists("list/html", "Lists a web page, whatever is asked for.", func(v *visit) { v.reply(200, "text/html", zooPage) }),
	onList("list/202", "Accepts the question for its list, and does not answer it.", plainStatus(202)),
	onList("list/endless", "Has always another page.", func(v *visit) { zooList(`"tools":[` + zooTools + `],"nextCursor":"` + v.params.Cursor + `+"`)(v) }),
	onList("list/same-cursor", "Gives the same cursor with each page.", zooList(`"tools":[`+zooTools+`],"nextCursor":"again"`)),
	onList("list/cursor-number", "Gives a cursor that is a number.", zooList(`"tools":[`+zooTools+`],"nextCursor":2`)),
	onList("list/null", "Lists null.", zooList(`"tools":null`)),
	onList("list/bad-entries", "Lists things that are no tools, beside its tools.",
		zooList(`"tools":[null,7,"x",{},{"name":12},{"name":"bad","inputSchema":"none"},`+zooTools+`]`)),
	onList("list/second-page-500", "Fails at the second page of its tools.", func(v *visit) {
		if v.params.Cursor != "" {
			plainStatus(500)(v)
			return
		}
		zooList(`"tools":[` + zooTools + `],"nextCursor":"two"`)(v)
	}),
	onList("list/cut", "Cuts the connection in the middle of its list.", func(v *visit) {
		rawReply("200 OK", []string{"Content-Type: application/json", "Content-Length: 5000"}, v.answer())(v)
	}),
}
