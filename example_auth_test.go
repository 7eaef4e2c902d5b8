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

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
)

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
