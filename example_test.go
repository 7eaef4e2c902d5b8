package mcpvisor_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// A subprocess that is started again up to three times in a row, with bounded calls.
func ExampleServerSpec() {
	spec := mcpvisor.ServerSpec{
		Name:     "fs",
		Stdio:    &mcpvisor.Stdio{Command: "npx", Args: []string{"-y", "@modelcontextprotocol/server-filesystem", "/tmp"}},
		Policy:   supervisor.Retry(3, 500*time.Millisecond),
		Timeouts: mcpvisor.Timeouts{Call: 10 * time.Second},
		Limits:   mcpvisor.Limits{MaxInFlight: 8},
	}
	fmt.Println(spec.Validate(), spec.WithDefaults().Timeouts.CallTotal)
	spec.Name = "my files"
	fmt.Println(spec.Validate())
	// Output:
	// <nil> 10m0s
	// server name "my files" holds ' ' at position 3; use letters, digits, '_', '.' or '-', beginning with a letter or digit
}

// A remote server, with a header that is sent to no other origin.
func ExampleHTTP() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	server := mcptest.NewHTTP(mcptest.Script{})
	defer server.Close()
	c, err := facade.New()
	if err != nil {
		panic(err)
	}
	defer func() { _ = c.Close(ctx) }()
	err = c.Register(ctx, mcpvisor.ServerSpec{
		Name: "remote",
		HTTP: &mcpvisor.HTTP{URL: server.URL, Headers: map[string]string{"Authorization": "Bearer token"}},
		// Register at once, even if the server is down, and try forever.
		StartSupervised: true,
		Policy:          supervisor.Retry(supervisor.Unlimited, time.Second, supervisor.WithMaxDelay(time.Minute), supervisor.WithJitter(0.2)),
	})
	fmt.Println(err, c.WaitReady(ctx, "remote"))
	// Output: <nil> <nil>
}

// A server that speaks HTTP+SSE, the deprecated transport of 2024-11-05, needs only its
// URL. HTTP.SSE would save the attempt at Streamable HTTP.
func ExampleHTTP_sse() {
	server := mcp.NewServer(&mcp.Implementation{Name: "old", Version: "1"}, nil)
	type in struct {
		Text string `json:"text"`
	}
	mcp.AddTool(server, &mcp.Tool{Name: "echo"}, func(_ context.Context, _ *mcp.CallToolRequest, in in) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: in.Text}}}, nil, nil
	})
	web := httptest.NewServer(mcp.NewSSEHandler(func(*http.Request) *mcp.Server { return server }, nil))
	defer web.Close()

	ctx := context.Background()
	c, err := facade.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = c.Close(ctx) }()
	err = c.Register(ctx, mcpvisor.ServerSpec{Name: "old", HTTP: &mcpvisor.HTTP{URL: web.URL + "/sse"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	res, err := c.CallTool(ctx, "old/echo", map[string]any{"text": "still here"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(res.Content[0].(*mcp.TextContent).Text)
	status, _ := c.ServerStatus("old")
	fmt.Println(status.Session.Deprecated != "")
	// Output:
	// still here
	// true
}

func ExampleToolFilter() {
	ctx := context.Background()
	client, err := facade.New()
	if err != nil {
		panic(err)
	}
	defer func() { _ = client.Close(ctx) }()
	err = client.Register(ctx, mcpvisor.ServerSpec{
		Name:     "calc",
		InMemory: mcptest.InMemory(mcptest.Script{}),
		Tools:    mcpvisor.ToolFilter{Allow: []string{"add", "e*"}, Deny: []string{"env"}},
	})
	if err != nil {
		panic(err)
	}
	for _, tool := range client.Tools() {
		fmt.Println(tool.Name)
	}
	_, err = client.CallTool(ctx, "calc/env", nil)
	fmt.Println(errors.Is(err, mcpvisor.ErrUnknownTool), err)
	// Output:
	// calc/add
	// calc/echo
	// true call calc/env: unknown tool; nothing was sent: the configuration of its server hides the tool; change ServerSpec.Tools, in a file "tools", "enabledTools" or "disabledTools", to allow it
}

// An error tells what happened, whether the server saw the request, and when to try
// again.
func ExampleError() {
	ctx := context.Background()
	client, err := facade.New()
	if err != nil {
		panic(err)
	}
	defer func() { _ = client.Close(ctx) }()
	err = client.Register(ctx, mcpvisor.ServerSpec{Name: "demo", InMemory: mcptest.InMemory(mcptest.Script{}),
		Policy: supervisor.Retry(3, time.Hour)})
	if err != nil {
		panic(err)
	}
	var e *mcpvisor.Error

	_, err = client.CallTool(ctx, "demo/crash", nil)
	fmt.Println(errors.Is(err, mcpvisor.ErrCrashed), errors.As(err, &e), e.Outcome, e.Retryable())

	_, err = client.CallTool(ctx, "demo/echo", nil)
	fmt.Println(errors.Is(err, mcpvisor.ErrUnavailable), errors.As(err, &e), e.Outcome, e.Retryable())
	// Output:
	// true true unknown false
	// true true not_sent true
}

// Names of tools come in three forms.
func ExampleAlias() {
	fmt.Println(mcpvisor.Qualify("fs", "list_directory"))
	fmt.Println(mcpvisor.Alias("fs", "list_directory"))
	fmt.Println(mcpvisor.SplitAlias("mcp__fs__list_directory"))
	// Output:
	// fs/list_directory
	// mcp__fs__list_directory
	// fs list_directory true
}

// Events print as one line each.
func ExampleEvent() {
	fmt.Println(mcpvisor.Event{Kind: mcpvisor.EventDown, Server: "fs", FailedCalls: 2,
		Cause: &supervisor.Cause{Kind: supervisor.CauseExit, Message: "exit status 1"}})
	// Output: fs down: exit status 1; 2 calls in flight failed
}

// signer is an Auth of our own: each request carries a signature of its body. It needs no
// state, so one value is the Auth, the Authorizer and the Credential.
type signer struct{ key string }

func (s signer) Validate() error {
	if s.key == "" {
		return errors.New("signer: the key is empty; set it")
	}
	return nil
}

func (s signer) Equal(other mcpvisor.Auth) bool { return s == other }

func (s signer) NewAuthorizer(*mcpvisor.HTTP, func(string)) (mcpvisor.Authorizer, error) {
	return s, nil
}

func (signer) Attach(context.Context) {}
func (signer) Detach(time.Duration)   {}

func (s signer) Credential(context.Context) (mcpvisor.Credential, error) { return s, nil }
func (s signer) Current() mcpvisor.Credential                            { return s }

// Answered accepts each answer: another signature would not help.
func (signer) Answered(context.Context, mcpvisor.Credential, int, http.Header) (mcpvisor.Credential, error) {
	return nil, nil
}

func (s signer) Redact(text string) string { return strings.ReplaceAll(text, s.key, "***") }

func (s signer) SetHeaders(header http.Header, _ string, _ *url.URL, body []byte) error {
	header.Set("X-Signature", s.sign(body))
	return nil
}

func (s signer) sign(body []byte) string {
	mac := hmac.New(sha256.New, []byte(s.key))
	mac.Write(body)
	return hex.EncodeToString(mac.Sum(nil))
}

// Package oauth has an Auth for OAuth. Another one may sign the requests.
func ExampleAuth() {
	auth := signer{key: "the key of both sides"}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Println("signed:", r.Header.Get("X-Signature") == auth.sign(body))
		http.Error(w, "not today", http.StatusForbidden)
	}))
	defer server.Close()

	ctx := context.Background()
	c, err := facade.New()
	if err != nil {
		panic(err)
	}
	defer func() { _ = c.Close(ctx) }()
	err = c.Register(ctx, mcpvisor.ServerSpec{Name: "web", Era: mcpvisor.EraLegacy, HTTP: &mcpvisor.HTTP{URL: server.URL, Auth: auth}})
	fmt.Println(errors.Is(err, mcpvisor.ErrAuthRequired))
	// Output:
	// signed: true
	// true
}
