package web_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/web"
	"github.com/mcpvisor/mcpvisor/web/api"
)

// The page is mounted in the service's own mux, beside its other pages. The service
// authenticates its operators itself.
func ExampleNew() {
	client, err := facade.New()
	if err != nil {
		panic(err)
	}
	defer client.Close(context.Background())
	handler, err := web.New(client, web.WithTitle("orders"), web.WithHosts("ops.example.com"), web.WithOwnAuthentication())
	if err != nil {
		panic(err)
	}
	defer handler.Close()

	mux := http.NewServeMux()
	mux.Handle("/ops/mcp/", http.StripPrefix("/ops/mcp", handler))
	service := httptest.NewServer(mux)
	defer service.Close()
	response, err := service.Client().Get(service.URL + "/ops/mcp/")
	if err != nil {
		panic(err)
	}
	defer response.Body.Close()
	fmt.Println(response.Status, response.Header.Get("Content-Type"))
	// Output: 200 OK text/html; charset=utf-8
}

// A program reads the API by decoding into the types of this package.
func ExampleHandler_api() {
	client, err := facade.New()
	if err != nil {
		panic(err)
	}
	defer client.Close(context.Background())
	err = client.Register(context.Background(), mcpvisor.ServerSpec{Name: "calc", InMemory: mcptest.InMemory(mcptest.Script{})})
	if err != nil {
		panic(err)
	}
	handler, err := web.New(client)
	if err != nil {
		panic(err)
	}
	defer handler.Close()
	service := httptest.NewServer(handler)
	defer service.Close()

	response, err := service.Client().Get(service.URL + "/api/status")
	if err != nil {
		panic(err)
	}
	defer response.Body.Close()
	var status api.Status
	if err := json.NewDecoder(response.Body).Decode(&status); err != nil {
		panic(err)
	}
	fmt.Println(status.Servers[0].Name, status.Servers[0].State, len(status.Attention))
	// Output: calc ready 0
}

// A token lets operators reach the page from other machines, and controls let them call
// tools and restart servers.
func ExampleWithToken() {
	client, err := facade.New()
	if err != nil {
		panic(err)
	}
	defer client.Close(context.Background())
	handler, err := web.New(client, web.WithToken("a-long-random-secret"), web.WithHosts("build-7.example.com"), web.WithControls())
	if err != nil {
		panic(err)
	}
	defer handler.Close()
	service := httptest.NewServer(handler)
	defer service.Close()

	response, err := service.Client().Get(service.URL + "/api/status")
	if err != nil {
		panic(err)
	}
	defer response.Body.Close()
	fmt.Println(response.Status)
	// Output: 401 Unauthorized
}
