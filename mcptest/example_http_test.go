package mcptest_test

import (
	"fmt"
	"net/http"
	"os"

	"github.com/mcpvisor/mcpvisor/mcptest"
)

// An HTTP server that refuses one request, stops as after a crash, and serves again on
// the same port.
func ExampleNewHTTP() {
	server := mcptest.NewHTTP(mcptest.Script{}, mcptest.WithStateless())
	defer server.Close()

	server.Refuse(http.StatusServiceUnavailable)
	answer, err := http.Get(server.URL)
	if err != nil {
		panic(err)
	}
	defer answer.Body.Close()
	fmt.Println(answer.StatusCode)

	server.Stop()
	_, err = http.Get(server.URL)
	fmt.Println("refused:", err != nil)
	server.Restart()
	fmt.Println("requests:", server.Requests())
	// Output:
	// 503
	// refused: true
	// requests: 1
}

// A server as a process that exits at its second start. The counts are kept in
// StateDir. TestMain must call Main before it runs the tests.
func ExampleStdio() {
	dir, err := os.MkdirTemp("", "state")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)

	spec := mcptest.Stdio(mcptest.Script{
		StateDir: dir,
		Faults:   []mcptest.Fault{{At: mcptest.StageStart, Starts: []int{2}, Do: mcptest.ActionExit, Code: 1}},
	})
	fmt.Println("arguments:", len(spec.Args))
	fmt.Println("starts so far:", mcptest.Starts(dir))
	// Output:
	// arguments: 0
	// starts so far: 0
}

// A tool with a name of your own that behaves like a default tool.
func ExampleToolDef() {
	script := mcptest.Script{Tools: []mcptest.ToolDef{
		{Name: "pay", As: "count", Description: "Counts its executions."},
		{Name: "greet", Text: "hello"},
	}}
	fmt.Println(script.Validate())
	script.Tools[0].As = "nonesuch"
	fmt.Println(script.Validate() != nil)
	// Output:
	// <nil>
	// true
}
