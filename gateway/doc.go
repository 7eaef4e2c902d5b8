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
// # Servers that are down
//
// While a server restarts, its entries stay in the lists, byte for byte, and no client is told of a change
// ([WithOnDown] changes that). A request that was not sent because its server is down waits for the next
// incarnation ([WithMaxWait]). Any other request that fails is not repeated, and its error says whether
// it may have had an effect. When a server is given up, parked or unregistered, its entries leave the
// lists.
//
// # Names
//
// Tools and prompts are listed as "server__tool" by a Handler, and by their alias (mcpvisor.Alias) by a
// Transport; [WithNames] changes that. Names fit what model providers accept. Tools that would share a
// name are withheld, and so is a tool whose schema makes hosts reject a whole list: [Status] says why.
// Calls take the listed name, the alias or the qualified name ("fs/list_directory"). A resource keeps
// its URI. If several servers list the same URI or template, it is listed as mcpvisor://SERVER/URI for
// each of them. That form names a resource of one server in any case.
//
// A URI belongs to the server that lists it. If no server lists it, it belongs to a server with a
// matching template; of several templates, the one with the longest literal prefix counts. On a tie the
// URI is refused, with an error that names the servers. A server owns what it offered last until it is
// unregistered: while it is down, given up or being replaced, requests for its URIs get an error, and
// never the answer of another server. So a server whose template matches everything gets the URIs that
// no other server has. A server that has never been ready owns nothing, as its entries are not known.
//
// Lists contain no characters that models read but people do not see: control characters with escape
// sequences, marks of the text direction, tag characters and other invisible ones. They are removed from
// names of resources, titles, descriptions and instructions. Names and values in schemas that contain
// such characters are left out. URIs and _meta are not changed.
//
// # Profiles
//
// A [Profile] offers a part of the servers to some clients: by patterns over servers, tools, prompts and
// resources, and by the annotations of tools. What it leaves out does not exist for these clients: it is
// in no list, suggestion, instruction or log message. [SettingsVar] changes profiles, names and more
// while the gateway serves.
//
// # Results and errors
//
// Results of tools, and the contents of resources and prompts, are passed on byte for byte, invisible
// characters included: they are data, such as a file that is to be written back. Code that shows a
// result to a model or on a terminal must remove such characters. For a client of 2026-07-28, a
// resultType is added if the server is older and has none, and a requestState is sealed.
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
// A call that may have reached a server is not repeated. Switch off the automatic retries of a
// framework: the outcome of the first attempt may be unknown. (Eino's officialmcp calls them replay.)
//
// # Notifications
//
// When the bytes of a list change, the session gets one list_changed notification for that kind of list.
// Further changes are not announced until the session has read the list. An update of a resource is
// reported to the sessions that subscribed to it; after a restart of its server each subscribed resource
// counts as updated. Subscriptions also survive when the host replaces the server: once a server of that
// name is ready, they are made again, and each resource counts as updated. Progress is passed on if the
// request has a progress token. A report that the session has not read when the next one comes is
// replaced by that.
//
// After logging/setLevel a session gets log messages: those about a call go to its client, all others to
// all sessions. The request sets the level of all servers registered at that moment; servers registered
// later keep theirs. The level outlives the session, because MCP has no request that resets it. The host
// can set it with facade.Client.SetLoggingLevel.
//
// # Requests of servers
//
// A request of a server that a call has caused (sampling, elicitation, roots) is put to the client that
// made the call: before 2026-07-28 by a request, if the client has declared that it answers, and since
// then by a result that requires input. If the server speaks an earlier version than the client of
// 2026-07-28, the call is held: it stays in flight at the server until the client's next request
// continues it, for at most 10 minutes. The requestState of each result is sealed: only the same
// principal can use it, and only for the same request. Servers before 2026-07-28 ask for what
// facade.WithDeclared has declared. The handlers of the facade.Client answer what the client does not. A
// question ends with its call.
//
// # Servers that run once for each client
//
// With [WithShare] or [Settings] a server runs once for each client: a session, a connection or, over
// HTTP since 2026-07-28, a principal. The lists are those of the server that is registered, the same for
// all. A copy (facade.Client.CopyServer) starts with the first request of its client that needs it, and
// ends with the client. What the copy asks, reports and logs goes to that client only, even while no
// call is in flight. See [ShareClient].
//
// # Tasks
//
// A task that a server makes of a call is handed to a client that follows tasks: one of 2026-07-28 that
// declares the extension, and one of 2025-11-25 that declares tasks and asks for one. The id of the task
// is sealed for the principal, and each request about it goes to the current incarnation.
//
// For other clients the gateway follows the task itself, with one exception: if client and server speak
// 2026-07-28, the server is asked to answer without a task. A call whose _meta has [KeyMeta] is one of
// facade.WithKey.
//
// # What a peer may cost
//
// [Limits] bound what one session costs, whatever its peer sends or leaves unread: requests in flight
// and waiting, their bytes, unread answers, subscriptions, and subscriptions/listen requests. A request
// beyond them waits in Write, so nothing more is read from a peer behind a stream. A request that is
// refused gets a JSON-RPC error that names the bound. A session whose unread answers exceed their bound
// ends with [ErrPeerDoesNotRead]; the bound is lower for a peer that reads nothing.
//
// Notifications need no bound of their own: equal ones are merged, updates of many parts of a resource
// become one of the whole, and only the newest log messages are kept. Lists are made one at a time. When
// events of the client were lost, the lists are compared, and subscribed resources count as changed.
//
// Nothing that a peer does delays another one. But all peers share the calls that a server accepts at
// once (mcpvisor.Limits.MaxInFlight), so MaxRequests should be less than that.
//
// # Versions
//
// The session speaks the versions from 2024-11-05 to 2025-11-25, and 2026-07-28 with
// subscriptions/listen, whatever the servers speak.
//
// # Files
//
// This package is large because Handler, Transport and Serve share one engine: it treats a request and
// its answer alike, however they travel. A request passes through these files:
//
//	serve.go, transport.go                lines of a peer, or a session of the go-sdk
//	handler.go, http_post.go, access.go   HTTP, and access control
//	http_session.go, http_stream.go       sessions over HTTP before 2026-07-28, and their streams
//	connection.go, requests.go            requests in flight and waiting, and the end of a session
//	answer.go, params.go                  which function answers; the handshake; errors
//	call.go, contents.go                  tools; lists, prompts, resources, completions
//	rounds.go, wait.go                    the request to the server: input that it requires, and the wait for it
//	outbox.go                             what the peer has not read
//
// What happens without a request:
//
//	hub.go                                events of the client, to the notifiers of the sessions
//	subscriptions.go                      what sessions have subscribed to, and subscriptions/listen
//	questions.go, standalone.go           requests of servers, to the client
//	tasks.go                              tasks
//	copies.go, copies_legacy.go           servers that run once for each client, or once for older clients
//	settings.go, profile.go, limits.go    what a host can set
//	clients.go                            what the registry of clients is told
//
// The packages in gateway/internal know neither a connection nor a request of this package:
//
//	message, capability, lines                  read and write messages
//	listing, offer, resource, hostschema        make the lists, and find resources
//	httpwire, sessionid, seal                   HTTP, and the texts that clients bring back
//	notices, subscriptions, elicited            what sessions are told
//	roundtrip, opentasks, tasktext, longresult  what outlives a request: held calls, tasks, long results
package gateway
