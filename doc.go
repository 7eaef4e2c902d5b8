// Package mcpvisor is an MCP client runtime that supervises its servers, in the
// manner of Erlang/OTP. A Go program registers MCP servers: subprocesses on stdio,
// remote servers over HTTP, Go servers in the same process. It then calls their
// tools, reads their resources and gets their prompts through one client. When a
// server crashes, hangs or breaks the protocol, its calls in flight fail at once with a
// typed error, its tools leave the listing, and a policy decides when it is started
// again. Other servers, outside its group, are not affected.
//
// This package holds the values of the API: the specification of a server
// ([ServerSpec]), its state ([ServerStatus]), what it offers ([Tool], [Resource],
// [ResourceTemplate], [Prompt]), what happens to it ([Event]) and what can go wrong
// ([Error]). The client is facade.Client in package
// [github.com/mcpvisor/mcpvisor/facade]; start with facade.New.
//
//	go get github.com/mcpvisor/mcpvisor # Go 1.26 or newer
//
// # A program
//
// This program starts the reference file server of the MCP project, lists its tools and calls
// one. After a crash the server is started again after 500 ms, 1 s and 2 s.
//
//	package main
//
//	import (
//		"context"
//		"errors"
//		"fmt"
//		"log"
//		"time"
//
//		"github.com/modelcontextprotocol/go-sdk/mcp"
//
//		"github.com/mcpvisor/mcpvisor"
//		"github.com/mcpvisor/mcpvisor/facade"
//	)
//
//	func main() {
//		ctx := context.Background()
//		client, err := facade.New()
//		if err != nil {
//			log.Fatal(err)
//		}
//		defer client.Close(context.Background()) // a ctx that has ended would cut it short
//
//		err = client.Register(ctx, mcpvisor.ServerSpec{
//			Name: "fs",
//			Stdio: &mcpvisor.Stdio{
//				Command: "npx",
//				Args:    []string{"-y", "@modelcontextprotocol/server-filesystem", "/tmp"},
//			},
//			Policy: mcpvisor.Retry(3, 500*time.Millisecond),
//		})
//		if err != nil {
//			fmt.Println(err) // what failed, why, and what to do
//			return
//		}
//		for _, tool := range client.Tools() {
//			fmt.Println(tool.Name) // fs/list_directory, fs/read_text_file, …
//		}
//
//		result, err := client.CallTool(ctx, "fs/list_directory", map[string]any{"path": "/tmp"})
//		if errors.Is(err, mcpvisor.ErrUnavailable) {
//			fmt.Println("the server is being restarted; nothing was sent")
//			return
//		}
//		if err != nil {
//			fmt.Println(err)
//			return
//		}
//		for _, content := range result.Content {
//			if text, ok := content.(*mcp.TextContent); ok {
//				fmt.Println(text.Text)
//			}
//		}
//	}
//
// # Servers and their states
//
// A [ServerSpec] names a server, says how to reach it (exactly one of Stdio, HTTP,
// InMemory and Transport), and what follows a crash (Policy). All other fields have defaults.
// Register connects, negotiates the protocol version and reads all lists; then the
// server is ready and takes calls. Servers pass through these states, which
// [ServerStatus] reports:
//
//	connecting    a process or connection is being opened and negotiated with
//	discovering   its tools, resources and prompts are being listed
//	ready         it takes calls
//	closing       its session has ended and is being cleaned up
//	backoff       it waits for the next attempt of its policy
//	parked        its attempts are spent; it is tried again slowly
//	unauthorized  it needs OAuth authorization; see facade.Client.Authorize
//	evicted       it was given up; Restart or Register brings it back
//	stopping      it is being unregistered
//
// One process or connection of a server is an incarnation; Epoch numbers them, and
// Gen numbers registrations. A restart repeats everything: the handshake, the lists,
// the subscriptions and the log level. Only complete lists make a server ready again.
// facade.Client.Watch reports each step as an [Event]:
//
//	for event := range client.Watch(ctx, mcpvisor.EventDown, mcpvisor.EventReady) {
//		log.Println(event) // fs down: server process ended with exit status 1; 2 calls in flight failed
//	}
//
// # What operators see
//
// The client counts what happens, always: facade.Client has Status, ToolStats (outcomes
// and durations), CallsInFlight, History (calls, events) and Stderr. [Totals] outlive
// restarts. A monitor.Observer sees each request, for traces and metrics.
//
// # Names
//
// A tool's name is "server/tool", as in "fs/list_directory" ([Tool].Name). Language
// model providers accept no slash, so each tool has an alias as well,
// "mcp__fs__list_directory" ([Tool].Alias). Calls take either. Prompts have
// names of the first form. Resources are named by server and URI.
//
// # Errors
//
// Every operation of the client that fails returns an [Error]. errors.Is matches its
// kind, such as [ErrCrashed], and errors.As gives the details:
//
//	var e *mcpvisor.Error
//	if errors.As(err, &e) && e.Retryable() { // nothing was sent; repeating is safe
//		select {
//		case <-time.After(max(e.RetryAfter, 100*time.Millisecond)): // 0: not known
//			// call again, a bounded number of times
//		case <-ctx.Done():
//			return ctx.Err()
//		}
//	}
//
// The text of an error is one line, for logs and users. It may contain lines that the
// server wrote to stderr:
//
//	register fs: server did not start: command "nxp" not found; install it, or give its full path
//	call fs/list_directory: server crashed; outcome unknown: out of memory (exit status 1)
//
// What usually helps:
//
//	ErrInvalid        correct the arguments or the specification; the text says which
//	ErrUnknownServer  register the server, or correct the name; Hint suggests some
//	ErrUnknownTool    correct the name; Hint suggests some
//	ErrExists         choose another name, or unregister the server first; after a
//	                  canceled Register, wait for EventUnregistered
//	ErrStart          the first start failed; the text and Stderr say why
//	ErrUnavailable    try again after RetryAfter, or call with facade.WithWaitReady
//	ErrOverloaded     wait for calls to end, as facade.WithWaitReady does, or raise
//	                  Limits.MaxInFlight, MaxQueued or MaxBufferBytes
//	ErrCrashed        the server ended during the call, which may have run; if nothing
//	                  was sent, the error is ErrUnavailable instead
//	ErrEnded          the server was restarted, moved or fenced during the call, which
//	                  may have run
//	ErrTimeout        the server was too slow; look at Outcome, raise a timeout
//	ErrCanceled       the caller's context ended; look at Outcome
//	ErrProtocol       the server's answer was unusable: report it to the authors; or the
//	                  connection broke while the server lives: look at Outcome
//	ErrRPC            the server answered with a JSON-RPC error; errors.As finds the
//	                  *jsonrpc.Error of the go-sdk, with code and data
//	ErrAuthRequired   authorize the client; errors.As finds an AuthRequired
//	ErrInputRequired  the server asked for input that no handler gave
//	ErrEvicted        repair the server, then Restart it
//	ErrLeftBehind     the server is removed, but the processes named in the text may
//	                  still run
//	ErrClosed         the client or the registration was closed
//	ErrInterrupted    the host ended during a call with a key, which may have run; another
//	                  key makes a new call
//	ErrJournal        the journal of calls with a key failed; the text says why
//
// [Error].Outcome answers the question that matters before a call is repeated.
// [OutcomeNotSent]: the server never saw it. [OutcomeAnswered]: the error is the
// server's answer. [OutcomeUnknown]: it may have run. The client itself never sends a
// request twice unless nothing was sent.
//
// A tool that fails by itself is not an error: it returns a result with IsError.
//
// # Concurrency
//
// A facade.Client may be used by many goroutines at once. Specifications are copied
// when they are registered, and statuses and events are copies too; definitions of tools,
// resources and prompts are shared and must not be changed. A call waits for no
// other server and, up to Limits.MaxInFlight, for no other call. Every call ends: by
// its result, by its context, by a timeout, or by the end of its server. A call whose
// timeouts are all switched off and whose context has no deadline is refused with
// ErrInvalid.
//
// Functions that the program passes in (handlers, loggers, RoundTrippers, token stores,
// InMemory.Serve, Transport.New) must honour the context that they get, as net/http demands of a
// RoundTripper. If one panics, the operation that called it fails and the client continues.
// Interceptors, the function of facade.WithProgress and MarshalJSON of arguments are exceptions:
// they run in the caller's goroutine, and their panics continue there.
//
// # Packages
//
//	mcpvisor            this package: the values of the API
//	facade              Client: register servers, call, list, watch, authorize
//	oauth               OAuth tokens for servers over HTTP; only its users link it
//	gateway             all servers as one MCP server: for hosts over HTTP and stdio, and for frameworks
//	supervisor          retry policies, states and causes, as plain values
//	schema              tools as the parameters of model providers want them
//	telemetry           OpenTelemetry metrics and traces of a client; a module of its own
//	web                 a live page and probes of health for a client
//	journal             calls with a key that outlive the host, in a file; a module of its own
//	fleet               one catalog of servers on several machines; a module of its own
//	adapters/…          for Eino, Genkit, langchaingo, mcp-go, …; modules of their own
//	config              reads .mcp.json, mcp.json of VS Code and others into ServerSpecs
//	mcptest             a scriptable MCP server for tests, in memory, as a process, over HTTP
//	mcptest/chaos       storms: faults for your servers, and a verdict on each server
//	mcptest/oauthtest   an OAuth authorization server for tests
//	cmd/mcpvisor        the command line tool: status, tools, call, …; a module of its own
//	cmd/demo            a demonstration with servers that crash
//
// transport, actors and messages are the runtime behind facade. Programs do not need
// them.
//
// This package is large because it holds every value of the API. To read the code, begin with
// spec.go, then status.go, events.go and errors.go.
package mcpvisor
