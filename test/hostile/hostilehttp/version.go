package hostilehttp

import (
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// onDiscover handles server/discover in a server that speaks only versions with
// initialize.
func onDiscover(name, about string, do handler) Misbehaviour {
	return legacyOnly(onKeys(name, about, do, "server/discover"))
}

// versionMisbehaviours are about the negotiation of the era.
var versionMisbehaviours = []Misbehaviour{
	onDiscover("version/discover-400", "Rejects server/discover with 400 and a text about the version in the header.", func(req *request) {
		req.reply(400, "text/plain", "Bad Request: Unsupported protocol version (supported versions: 2025-11-25, 2025-06-18)")
	}),
	onDiscover("version/discover-rpc-400", "Rejects server/discover with 400 and a JSON-RPC error about the version, whose id is null.",
		rpcStatus(400, -32000, "Bad Request: Unsupported protocol version", false)),
	onDiscover("version/discover-session-400", "Rejects server/discover with 400 because it has no session.",
		rpcStatus(400, -32000, "Bad Request: Server not initialized", false)),
	onDiscover("version/discover-404", "Rejects server/discover with 404.", plainStatus(404)),
	onDiscover("version/discover-405", "Rejects server/discover with 405.", plainStatus(405)),
	onDiscover("version/discover-500", "Rejects server/discover with 500.", plainStatus(500)),
	onDiscover("version/discover-html", "Answers server/discover with 200 and an HTML page.", func(req *request) { req.reply(200, "text/html", webPage) }),
	onDiscover("version/discover-202", "Replies 202 to server/discover and never answers it.", plainStatus(202)),
	onDiscover("version/discover-hang", "Never answers server/discover, but would answer initialize.", (*request).waitForClient),
	onDiscover("version/discover-stalled", "Sends the beginning of the answer to server/discover and then nothing more.", func(req *request) {
		req.beginReply(200, "application/json", req.answer()[:20])
		req.waitForClient()
	}),
	onDiscover("version/discover-reset", "Resets the connection of server/discover.", func(req *request) { req.takeOverConn((*rawConn).reset) }),
	onDiscover("version/discover-switching", "Answers server/discover with 101 Switching Protocols.", switching),
	onDiscover("version/discover-endless", "Answers server/discover with a JSON string that never ends.", func(req *request) {
		req.beginReply(200, "application/json", `{"result":"`)
		req.flood("abcdefgh")
	}),
	onDiscover("version/discover-null", "Answers server/discover with null.", func(req *request) { req.replyMessage(req.resultMessage("null")) }),
	onDiscover("version/discover-initialize", "Answers server/discover with the result of initialize.", func(req *request) {
		req.replyMessage(req.resultMessage(`{"protocolVersion":"2025-11-25",` + goodCapabilities + `,` + goodInfo + `}`))
	}),
	onDiscover("version/discover-old", "Answers server/discover with versions that do not have this method.", func(req *request) {
		req.replyMessage(req.resultMessage(`{"supportedVersions":["2025-11-25","2025-06-18"],` + goodCapabilities + `,` + goodInfo + `}`))
	}),
	onKeys("version/discover-busy", "Rejects the first server/discover with a temporary error and answers later ones.", func(req *request) {
		if req.count == 1 {
			req.replyError(200, -32603, "still starting up")
			return
		}
		req.answerWell()
	}, "server/discover"),
	{Name: "version/future", About: "Supports only a version of the far future, in server/discover and in initialize.", handlers: func() handlers {
		return handlers{
			"server/discover": func(req *request) {
				req.reply(400, "application/json", `{"jsonrpc":"2.0","id":`+string(req.id)+
					`,"error":{"code":-32022,"message":"Unsupported protocol version","data":{"supported":["2099-01-01"],"requested":"2026-07-28"}}}`)
			},
			"initialize": answersInitialize(`{"protocolVersion":"2099-01-01",` + goodCapabilities + `,` + goodInfo + `}`),
		}
	}},
	onKeys("version/flips", "Negotiates 2026-07-28 and then rejects that version at the first call.", func(req *request) {
		req.reply(400, "application/json", `{"jsonrpc":"2.0","id":`+string(req.id)+
			`,"error":{"code":-32022,"message":"Unsupported protocol version","data":{"supported":["2025-11-25"],"requested":"2026-07-28"}}}`)
	}, "misbehave"),
	onKeys("version/header-mismatch", "Rejects a call for wrong headers although they are right.", func(req *request) {
		req.reply(400, "application/json", req.errorMessage(string(req.id), -32020, "Header mismatch: Mcp-Name"))
	}, "misbehave"),
	onKeys("version/session-anyway", "Sets a session id in the era without sessions and rejects requests that return it.", func(req *request) {
		req.w.Header().Set("Mcp-Session-Id", "unrequested")
		if req.http.Header.Get("Mcp-Session-Id") == "unrequested" {
			req.reply(418, "text/plain", "I did not mean it")
			return
		}
		req.answerWell()
	}, "server/discover", "tools/list", "misbehave"),
	onKeys("version/no-result-type", "Leaves resultType out of its results.", func(req *request) {
		req.replyMessage(req.resultMessage(`{"content":[{"type":"text","text":"fine"}]}`))
	}, "misbehave"),
	onKeys("version/unknown-result-type", "Answers with an unknown resultType.", func(req *request) {
		req.replyMessage(req.resultMessage(`{"resultType":"riddle","content":[{"type":"text","text":"what am I?"}]}`))
	}, "misbehave"),
}

// onListen is a server of 2026-07-28 that announces changes of its tools, and handles
// subscriptions/listen.
func onListen(name, about string, do handler) Misbehaviour {
	return Misbehaviour{Name: name, About: about, handlers: func() handlers {
		return handlers{"subscriptions/listen": do, "server/discover": func(req *request) {
			if req.server.legacyOnly {
				req.answerWell()
				return
			}
			req.replyMessage(strings.Replace(req.answer(), `"tools":{}`, `"tools":{"listChanged":true}`, 1))
		}}
	}}
}

// listenMisbehaviours are about subscriptions/listen.
var listenMisbehaviours = []Misbehaviour{
	onListen("listen/ack-of-more", "Acknowledges 20,000 resources that were not asked for, and ends the subscription, each time.", func(req *request) {
		req.events().message(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{%q:%s},"notifications":{"resourceSubscriptions":["mcptest://text"%s]}}}`,
			mcp.MetaKeySubscriptionID, req.id, strings.Repeat(`,"hostile://more","hostile://more2"`, 10_000)))
	}),
	onListen("listen/no-ack", "Opens the stream of a subscription and never acknowledges it.", func(req *request) {
		req.events()
		req.waitForClient()
	}),
	onListen("listen/no-header", "Never responds to a subscription.", (*request).waitForClient),
}

// onList handles tools/list.
func onList(name, about string, do handler) Misbehaviour {
	return onKeys(name, about, do, "tools/list")
}

// onLists handles the lists of tools, resources and templates.
func onLists(name, about string, do handler) Misbehaviour {
	return onKeys(name, about, do, "tools/list", "resources/list", "resources/templates/list")
}

// answerList answers tools/list with these members of the result.
func answerList(members string) handler {
	return func(req *request) { req.replyMessage(req.resultMessage("{" + members + "}")) }
}

// listMisbehaviours are about listing the tools.
var listMisbehaviours = []Misbehaviour{
	onList("list/stalled-page", "Never answers the second page of the tools.", func(req *request) {
		if req.params.Cursor != "" {
			req.waitForClient()
			return
		}
		answerList(`"tools":[` + goodTools + `],"nextCursor":"two"`)(req)
	}),
	onList("list/once-500", "Rejects the first tools/list with 500 and answers later ones.", func(req *request) {
		if req.count == 1 {
			plainStatus(500)(req)
			return
		}
		req.answerWell()
	}),
	onList("list/once-html-502", "Answers the first tools/list with a 502 page, as gateways do, and answers later ones.", func(req *request) {
		if req.count == 1 {
			req.reply(502, "text/html", webPage)
			return
		}
		req.answerWell()
	}),
	onList("list/500", "Rejects tools/list with 500 every time.", plainStatus(500)),
	onLists("list/401", "Rejects every list request with 401.", plainStatus(401)),
	onLists("list/html", "Answers every list request with an HTML page.", func(req *request) { req.reply(200, "text/html", webPage) }),
	onList("list/202", "Replies 202 to tools/list and never answers it.", plainStatus(202)),
	onList("list/endless", "Ends every page with a new cursor, so the list never ends.", func(req *request) {
		answerList(`"tools":[` + goodTools + `],"nextCursor":"` + req.params.Cursor + `+"`)(req)
	}),
	onList("list/same-cursor", "Ends every page with the same cursor, which exposes clients that follow it forever.", answerList(`"tools":[`+goodTools+`],"nextCursor":"again"`)),
	onList("list/cursor-number", "Ends the page with a cursor that is a number.", answerList(`"tools":[`+goodTools+`],"nextCursor":2`)),
	onList("list/null", "Answers tools/list with a list that is null.", answerList(`"tools":null`)),
	onList("list/bad-entries", "Lists entries that are not tools next to its tools.",
		answerList(`"tools":[null,7,"x",{},{"name":12},{"name":"bad","inputSchema":"none"},`+goodTools+`]`)),
	onList("list/header-marks", "Lists a tool that wants 3,000 of its arguments repeated in headers, next to its tools.", func(req *request) {
		var marks strings.Builder
		for i := range 3000 {
			fmt.Fprintf(&marks, `"a%d":{"type":"string","x-mcp-header":"A%d"},`, i, i)
		}
		answerList(`"tools":[{"name":"marked","inputSchema":{"type":"object","properties":{` + marks.String() + `"z":{}}}},` + goodTools + `]`)(req)
	}),
	onList("list/second-page-500", "Rejects the second page of the tools with 500.", func(req *request) {
		if req.params.Cursor != "" {
			plainStatus(500)(req)
			return
		}
		answerList(`"tools":[` + goodTools + `],"nextCursor":"two"`)(req)
	}),
	onList("list/cut", "Closes the connection in the middle of the list.", func(req *request) {
		rawReply("200 OK", []string{"Content-Type: application/json", "Content-Length: 5000"}, req.answer())(req)
	}),
}
