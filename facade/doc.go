// Package facade is the client of mcpvisor: one [Client] that supervises many MCP
// servers and offers their tools, resources and prompts under one namespace.
//
//	client, err := facade.New()
//	if err != nil {
//		return err
//	}
//	defer client.Close(ctx)
//
//	err = client.Register(ctx, mcpvisor.ServerSpec{
//		Name:   "fs",
//		Stdio:  &mcpvisor.Stdio{Command: "npx", Args: []string{"-y", "@modelcontextprotocol/server-filesystem", "/tmp"}},
//		Policy: supervisor.Retry(3, 500*time.Millisecond),
//	})
//	if err != nil {
//		return err // the text says what failed and what to do
//	}
//	result, err := client.CallTool(ctx, "fs/list_directory", map[string]any{"path": "/tmp"})
//
// What a caller may rely on:
//
//   - A crash is noticed by the exit of the process or the end of the connection, not
//     by a poll. The calls in flight fail at once with a typed error, and the server's
//     tools leave the listing in one step.
//   - A restart repeats everything: handshake, lists, subscriptions, log level. Only
//     complete lists make a server ready again.
//   - Every call ends: by its result, its context, a timeout, or the end of its server.
//   - No call is sent twice, unless nothing was sent the first time and the caller asked
//     for it with [WithWaitReady]. The Outcome of an [mcpvisor.Error] says whether the
//     server may have executed it.
//   - Servers do not affect each other.
//   - [Client.Unregister] and [Client.Close] leave no process, goroutine or connection
//     behind, and are bounded in time whatever the servers do.
//
// [Client] lists its methods by purpose. [New] takes options for the whole client (type
// [Option]), the calls take options for one call (type [CallOption]).
package facade
