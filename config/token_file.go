package config

import (
	"context"
	"os"
	"strings"
	"sync"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/oauth/tokenstore"
)

// Specs of equal entries must be equal by [mcpvisor.ServerSpec.Equal] whenever they are
// read, or each reload would start their servers again. So what is compared by identity
// is made once in the process.

// memoryTokens is the store of all entries with the store "memory". As with the other
// stores, entries for one URL and account share their tokens.
var memoryTokens = tokenstore.NewMemory()

// tokenFiles are the functions that read a file: path → *tokenFile. One entry is kept for
// each path that any configuration has named.
var tokenFiles sync.Map

// tokenFile reads a file at each call, because another process keeps the token in it
// fresh.
type tokenFile struct {
	fetch          func(context.Context) (string, error)
	fetchAssertion mcpvisor.AssertionFunc
}

// tokenFileOf returns the functions for a path, the same at each call.
func tokenFileOf(path string) *tokenFile {
	if f, ok := tokenFiles.Load(path); ok {
		return f.(*tokenFile)
	}
	read := func(context.Context) (string, error) {
		text, err := os.ReadFile(path)
		return strings.TrimSpace(string(text)), err
	}
	f, _ := tokenFiles.LoadOrStore(path, &tokenFile{fetch: read,
		fetchAssertion: func(ctx context.Context, _ mcpvisor.AssertionRequest) (string, error) { return read(ctx) }})
	return f.(*tokenFile)
}
