package mcptest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor/mcptest"
)

// A server in this process that fails its first two calls.
func Example() {
	server := mcptest.InMemory(mcptest.Script{
		Name: "moody",
		Faults: []mcptest.Fault{
			{At: mcptest.StageCall, Tool: "echo", Nth: 1, Do: mcptest.ActionError, Text: "not in the mood"},
			{At: mcptest.StageCall, Tool: "echo", Nth: 2, Do: mcptest.ActionExit, Code: 3},
		},
	})

	serverIn, stdin := io.Pipe()
	stdout, serverOut := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(context.Background(), serverIn, serverOut, io.Discard) }()

	client := mcp.NewClient(&mcp.Implementation{Name: "example", Version: "1"}, nil)
	session, err := client.Connect(context.Background(), &mcp.IOTransport{Reader: stdout, Writer: stdin}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	for range 2 {
		_, err := session.CallTool(context.Background(), &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": "hi"}})
		fmt.Println("call failed:", err != nil)
	}
	fmt.Println("server:", <-ended)
	// Output:
	// call failed: true
	// call failed: true
	// server: exit status 3
}

// A script in JSON, as a demo or a test matrix may keep it in a file. Stdio runs it as
// a process; the binary must call Main first.
func ExampleScript() {
	script := mcptest.Script{
		Versions: []string{"2026-07-28"},
		StateDir: "state",
		Faults: []mcptest.Fault{
			{At: mcptest.StageStart, Starts: []int{2}, Do: mcptest.ActionStderrLine, Text: "fatal: no licence"},
			{At: mcptest.StageStart, Starts: []int{2}, Do: mcptest.ActionExit, Code: 1},
		},
	}
	text, err := json.Marshal(script)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(text))
	// Output:
	// {"versions":["2026-07-28"],"stateDir":"state","faults":[{"at":"start","starts":[2],"do":"stderr_line","text":"fatal: no licence"},{"at":"start","starts":[2],"do":"exit","code":1}]}
}
