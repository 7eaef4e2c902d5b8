// Package gateway is not part of the stable API. It offers everything that a facade.Client supervises as
// one MCP server that stays, while the servers behind it crash and come back.
//
// [Handler] serves it over Streamable HTTP, to clients in any language:
//
//	http.Handle("/mcp", gateway.Handler(client, gateway.WithSessionKey(key)))
//
// [Transport] is an mcp.Transport of the go-sdk that answers from the client, with no server process and
// no pipe in between. Code that takes a transport or a session of the go-sdk gets the tools, resources
// and prompts of all servers:
//
//	host := mcp.NewClient(&mcp.Implementation{Name: "host", Version: "1"}, nil)
//	session, err := host.Connect(ctx, gateway.Transport(client), nil)
//	tools, err := session.ListTools(ctx, nil)
//	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "mcp__fs__list_directory"})
//
// [Serve] offers the same to one other process, over stdio or a stream.
//
// What clients see while servers are down, names, profiles, copies of servers, tasks and the table of
// versions are in docs/gateway.md: https://github.com/mcpvisor/mcpvisor/blob/main/docs/gateway.md
//
// # Results and errors
//
// A request that was not sent because its server is down waits for the next incarnation ([WithMaxWait]).
// Any other request that fails is not repeated, and its error says whether it may have had an effect.
// Switch off the automatic retries of a framework: the outcome of the first attempt may be unknown.
//
// Results of tools, and the contents of resources and prompts, are passed on byte for byte, invisible
// characters included: they are data, such as a file that is to be written back. Code that shows a
// result to a model or on a terminal must remove such characters. Lists contain none: they are removed
// from names of resources, titles, descriptions and instructions, and names and values in schemas that
// contain such characters are left out. For a client of 2026-07-28, a resultType is added if the server
// is older and has none, and a requestState is sealed.
//
// A failure is reported in the form that the caller can act on:
//
//   - The server is down, crashed, was given up, is overloaded or did not answer in time: a
//     result with IsError, whose text says what happened, and whether the call may have had
//     an effect or is safe to repeat. Its structured content is a facade.ModelError.
//   - The tool does not take these arguments (facade.WithValidation), or an interceptor
//     refused the call (facade.WithInterceptor): a result with IsError, too.
//   - No such tool, or arguments that are not an object: JSON-RPC error -32602.
//   - A JSON-RPC error of the server: the same error, with its code and data.
//
// # Notifications
//
// When the bytes of a list change, the session gets one list_changed notification for that kind of list.
// Changes until it has read that notification need no further one. After a restart of its server, and after the
// host has replaced the server, subscriptions are made again, and each subscribed resource counts as updated. A
// report of progress that the session has not read when the next one comes is replaced by that. Log
// messages about a call go to its client. The level that logging/setLevel sets outlives the session,
// because MCP has no request that resets it.
//
// # What a peer may cost
//
// [Limits] and [HTTPLimits] bound what a peer costs, whatever it sends or leaves unread; docs/gateway.md has their tables.
// A request that is refused gets a JSON-RPC error that names the bound. Nothing that a peer does delays another one. But
// all peers share the calls that a server accepts at once (mcpvisor.Limits.MaxInFlight), so MaxRequests should be less.
//
// # Files
//
// This package is large because Handler, Transport and Serve share one engine: it treats a request and
// its answer alike, however they travel. Three types carry it:
//
//	session    what lives as long as a client: who it is, what it has subscribed to, its copies of servers
//	exchange   where answers are written: one POST, the stream of a session, or the connection of a Transport
//	request    one request of a client, from its arrival until it ends
//
// A request passes through these files:
//
//	serve.go, transport.go                lines of a peer, or a session of the go-sdk
//	handler.go, http_post.go              HTTP
//	access.go, tokens.go                  who may use the gateway: pages, hosts, tokens
//	http_session.go                       sessions over HTTP before 2026-07-28, and their streams
//	session.go                            what a client has, and its end
//	requests.go                           a request: its place among those of the session, its goroutine, its end
//	params.go                             what its params say
//	answer.go                             which function answers; the handshake; errors
//	call.go, contents.go                  tools; lists, prompts, resources, completions
//	find.go                               which of them a name means
//	rounds.go                             the request to the server: input that it requires, and the wait for it
//	outbox.go                             the exchange, and what waits there to be read
//
// What happens without a request:
//
//	hub.go                                events of the client, to the notifiers of the sessions
//	subscriptions.go                      what sessions have subscribed to, and subscriptions/listen
//	questions.go                          requests of servers, to the client
//	tasks.go                              tasks
//	copies.go                             servers that run once for each client, or once for older clients
//	settings.go                           what a host can set: what is offered, and what peers may cost
//
// The packages in gateway/internal know neither a session nor a request of this package:
//
//	message, capability, lines                  read and write messages
//	listing, offer, resource, hostschema        make the lists, and find resources
//	httpwire, sessionid, seal                   HTTP, and the texts that clients bring back
//	notices, subscriptions, elicited            what sessions are told
//	roundtrip, opentasks, tasktext, longresult  what outlives a request: held calls, tasks, long results
//	owner                                       names a principal with its profile
package gateway
