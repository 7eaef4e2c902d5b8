// Package relay is not part of the stable API. It is for programs that pass calls of others on, as package gateway and
// package fleet do, and for the page and the command of mcpvisor, which show and change what such programs do. It adds to
// package facade what an embedder that calls for itself does not need: results as the servers sent them, rounds and
// tasks that the caller carries on, requests of servers for the caller to answer, copies of servers, and the settings of
// a call as values that travel.
//
//	client, err := facade.New(facade.WithDeclared(facade.Declared{Elicitation: true}))
//	…
//	result, err := relay.Of(client).ReadResourceRaw(ctx, "fs", uri, relay.WithClientName("claude-code 2.1"))
//
// [Of] returns a client with more methods. The options are for the methods of [facade.Client], too. Facade does not
// know this package; package internal/relayhook says how the two are connected.
package relay
