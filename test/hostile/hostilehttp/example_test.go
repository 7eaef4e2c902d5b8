package hostilehttp_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/mcpvisor/mcpvisor/test/hostile/hostilehttp"
)

// A server that answers a call with an HTML page, for the client under test.
func ExampleMisbehaviour() {
	m, ok := hostilehttp.MisbehaviourNamed("call/html-400")
	if !ok {
		log.Fatal("there is no such misbehaviour")
	}
	server := httptest.NewServer(m.Handler())
	defer server.Close()

	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"misbehave"}}`
	request, err := http.NewRequest(http.MethodPost, server.URL, strings.NewReader(call))
	if err != nil {
		log.Fatal(err)
	}
	request.Header.Set("Mcp-Protocol-Version", "2026-07-28")
	response, err := server.Client().Do(request)
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	fmt.Println(m.About)
	fmt.Println(response.StatusCode, response.Header.Get("Content-Type"))
	// Output:
	// Answers 400 with an HTML page.
	// 400 text/html
}

// Serve starts a server on a loopback port, which also counts what its client does.
func ExampleServer() {
	m, _ := hostilehttp.MisbehaviourNamed("redirect/elsewhere-307")
	server := m.Serve()
	defer server.Close()

	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"misbehave"}}`
	request, err := http.NewRequest(http.MethodPost, server.URL, strings.NewReader(call))
	if err != nil {
		log.Fatal(err)
	}
	request.Header.Set("Mcp-Protocol-Version", "2026-07-28")
	response, err := http.DefaultTransport.RoundTrip(request) // follows no redirect
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	fmt.Println(response.StatusCode, server.Requests(http.MethodPost), server.CrossOriginRequests())
	// Output:
	// 307 1 0
}
