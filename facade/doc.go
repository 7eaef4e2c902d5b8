// Package facade is the front door of mcpvisor: one [Client] that supervises
// many MCP servers and shows their tools, resources and prompts as one
// namespaced surface.
//
//	c, err := facade.New()
//	if err != nil {
//		return err
//	}
//	defer c.Close(ctx)
//	err = c.Register(ctx, mcpvisor.ServerSpec{
//		Name:  "fs",
//		Stdio: &mcpvisor.Stdio{Command: "npx", Args: []string{"-y", "@modelcontextprotocol/server-filesystem", "/tmp"}},
//		Retry: supervisor.Retry(3, 500*time.Millisecond),
//	})
//	if err != nil {
//		return err // it says what to mend
//	}
//	res, err := c.Call(ctx, "fs/list_directory", map[string]any{"path": "/tmp"})
//
// What a user may rely on: a crash is noticed by the exit, not by a poll; the
// calls in flight fail at once with a typed error, and the tools leave the
// listing in one swap. A retry reruns everything, and only a complete catalog
// makes a server ready again. No call hangs, and none runs twice unasked: an
// [Error] says whether the request was sent. Servers do not feel each other.
package facade
