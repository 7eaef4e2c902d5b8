// Package web serves a page that shows the servers of a client to operators, and the API
// that the page, the terminal view and the command line read.
//
//	handler, err := web.New(client, web.WithTitle("orders"))
//	if err != nil {
//		return err
//	}
//	defer handler.Close()
//	mux.Handle("/ops/mcp/", http.StripPrefix("/ops/mcp", handler))
//
// The page shows what needs attention, the supervision tree, each server with its state, cause,
// stderr and history, calls in flight and ended ones with their outcomes, the time that tools
// take, the catalog with its cost in tokens, and a form that calls a tool. It consists of plain
// files that are embedded in the program: there is no build step and no request to another
// origin.
//
// # Who can see it
//
// By default the handler is read only, answers only to connections on loopback addresses
// and unix sockets, not through a proxy, and only under loopback names. [WithToken] requires
// a secret and allows other addresses and proxies, [WithHosts] allows other names,
// [WithControls] allows actions. Requests that change something are refused if they come from
// another web site. Secrets of specifications are redacted before they reach this package;
// the results of tools are shown as the servers send them, and so are their definitions without
// a mask ([api.Program], [WithProgram]).
//
// A reverse proxy on the same machine connects from a loopback address. Many name the user
// in a header such as X-Forwarded-For, and are refused; nginx sets none by default, and
// makes the page public. So set a token, or [WithOwnAuthentication], before you put a proxy
// in front of the page.
//
// # API
//
// docs/http-api.md has the requests, and openapi.json, which a handler serves at api/openapi.json, describes
// all of them with schemas (OpenAPI 3.1). Answers are JSON. The types of package api are their shapes, and
// within one [api.Schema] fields are only added. Durations are nanoseconds unless a name says otherwise. An
// answer with a status of 400 or more is an [api.ErrorAnswer]. The body of a POST is application/json: one
// object, without unknown fields and without text after it.
//
// A handler bounds what all its readers together can hold: 512 requests at a time and 64 event
// streams, 64 MiB of answers of more than 64 KiB each, and 64 MiB of memory for bodies. One
// answer may be larger. Beyond that the answer is 503 with Retry-After, or, if a tool has run,
// without it and with the outcome "answered". A reader that takes less than 512 KiB a second
// after the first 30 s loses its connection. Probes are always answered.
//
// An event stream begins with an event "hello" ([api.Hello]). The events of the client follow
// without a name: the data is an [api.Event], the id is for the header Last-Event-ID alone, after
// which a stream continues when it is opened again. An event "missed" ([api.Missed]) says how many
// events are lost to this reader. A stream is written to at most four times a second, after a burst of four.
package web
