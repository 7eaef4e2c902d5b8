package main

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"sync"
	"time"
)

// httpDriver is the floor over HTTP: an http.Client that posts a prepared body and reads
// the answer. Its transport keeps as many connections as there are callers.
type httpDriver struct {
	t       target
	client  *http.Client
	buffers sync.Pool // of *httpBuffers
}

// httpBuffers are the bodies of one call.
type httpBuffers struct {
	out []byte
	in  bytes.Buffer
}

func newHTTPDriver(_ context.Context, t target) (driver, error) {
	transport := &http.Transport{MaxIdleConns: 1024, MaxIdleConnsPerHost: 1024, IdleConnTimeout: time.Minute, DisableCompression: true}
	a := &httpDriver{t: t, client: &http.Client{Transport: transport}}
	a.buffers.New = func() any { return new(httpBuffers) }
	return a, nil
}

func (a *httpDriver) name() string { return clientBare }

func (a *httpDriver) echo(ctx context.Context, text string) (string, error) {
	b := a.buffers.Get().(*httpBuffers)
	defer a.buffers.Put(b)
	b.out = appendCall(b.out[:0], 1, a.t.echoTool, `{"`+a.t.echoArg+`":"`+text+`"}`)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.t.url, bytes.NewReader(b.out))
	if err != nil {
		return "", err
	}
	req.Header = bareHeader
	res, err := a.client.Do(req)
	if err != nil {
		return "", err
	}
	b.in.Reset()
	if _, err = b.in.ReadFrom(res.Body); err == nil {
		err = res.Body.Close()
	}
	if err != nil {
		return "", err
	}
	got, err := rawText(b.in.Bytes())
	return string([]byte(got)), err
}

// bareHeader is shared by all requests, and not changed by any.
var bareHeader = http.Header{
	"Content-Type":         {"application/json"},
	"Accept":               {"application/json, text/event-stream"},
	"Mcp-Session-Id":       {"bench"},
	"Mcp-Protocol-Version": {"2025-11-25"},
}

func (a *httpDriver) blob(context.Context, int) (string, error) { return "", errors.ErrUnsupported }

func (a *httpDriver) close() { a.client.CloseIdleConnections() }
