package inbound

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"

	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/transport"
)

// Who answers a request of the server:
//
//	                      the result of a call, 2026-07-28   that call
//	                      the response to a POST, legacy     the call that was POSTed
//	                      a pipe, another stream, legacy     the calls in flight, if they have the
//	                                                         same answerer; otherwise no one
//
// The answerer of a call is the CallHandlers of its transport.Caller, and without these the
// handlers of the client. In the legacy era Handlers.Unasked comes between the two.

// answerer is who answers a request, and what may be asked of it.
type answerer struct {
	handlers *transport.CallHandlers // nil: the handlers of the client
	offer    transport.Offer
	declared transport.Offer // what was declared for calls, of which this one does not answer all; legacy era only
}

type sampleFunc = func(ctx context.Context, server string, p *mcp.CreateMessageWithToolsParams) (*mcp.CreateMessageWithToolsResult, error)

// raw reports whether the answerer gets params as the server sent them.
func (a answerer) raw() bool { return a.handlers != nil && a.handlers.Raw != nil }

// host is the answerer with the handlers of the client.
func (h *Handler) host() answerer { return answerer{offer: h.Pool.Handlers.Offer()} }

// answererOf returns who answers what the result of a modern request requires. Each modern request
// declares what its answerer offers.
func (h *Handler) answererOf(c *transport.Caller) answerer {
	if c == nil || c.Handlers == nil {
		return h.host()
	}
	return answerer{handlers: c.Handlers, offer: c.Handlers.Offer()}
}

// legacyAnswerer returns the answerer with these handlers; nil: those of the client. What a legacy
// server may ask for was declared once, for the session.
func (h *Handler) legacyAnswerer(handlers *transport.CallHandlers) answerer {
	if handlers == nil {
		return answerer{offer: h.Pool.Handlers.Offer(), declared: h.Pool.Handlers.Declared}
	}
	own, declared := handlers.Offer(), h.Pool.Handlers.Offer().Or(h.Pool.Handlers.Declared)
	return answerer{handlers, transport.Offer{Sample: own.Sample && declared.Sample, SampleTools: own.SampleTools && declared.SampleTools,
		ElicitForm: own.ElicitForm && declared.ElicitForm, ElicitURL: own.ElicitURL && declared.ElicitURL, Roots: own.Roots && declared.Roots}, h.Pool.Handlers.Declared}
}

// checkMethod returns why the answerer answers no request of a method; nil if it may.
func (a answerer) checkMethod(method string) error {
	switch method {
	case methodRoots:
		if !a.offer.Roots && !a.hasNoRoots(method) {
			return errNotOffered("roots", a.declared.Roots)
		}
	case methodSample:
		if !a.offer.Sample {
			return errNotOffered("sampling", a.declared.Sample)
		}
	case methodElicit:
		if !a.offer.ElicitForm && !a.offer.ElicitURL {
			return errNotOffered("elicitation", a.declared.ElicitForm || a.declared.ElicitURL)
		}
	default:
		return errUnknownMethod
	}
	return nil
}

// hasNoRoots reports whether a request is for the roots where they were declared for calls, and no caller is known. The
// answer is an empty list: a server that asks at its start would write a refusal down as a failure.
func (a answerer) hasNoRoots(method string) bool {
	return method == methodRoots && a.handlers == nil && !a.offer.Roots && a.declared.Roots
}

// answerRaw answers a request by the raw handler of a call.
func (h *Handler) answerRaw(ctx context.Context, by answerer, method string, params []byte, begin func()) (text json.RawMessage, err error) {
	if err := by.checkMethod(method); err != nil {
		return nil, err
	}
	if begin != nil {
		begin()
	}
	res, err := runHandler(ctx, h, method, func(ctx context.Context) (*json.RawMessage, error) {
		text, err := by.handlers.Raw(ctx, h.Pool.serverName, method, params)
		return &text, err
	})
	if err != nil {
		return nil, err
	}
	if text = bytes.TrimSpace(*res); len(text) == 0 || text[0] != '{' || !jsonscan.Valid(text) {
		return nil, h.hideError(zerolog.WarnLevel, method, errors.New("what the handler returned is not a JSON object"))
	}
	return jsonscan.OneLine(text), nil
}

// errAmbiguous refuses a request that may belong to calls of several answerers.
var errAmbiguous = &sdkrpc.Error{Code: CodeTooManyRequests,
	Message: "several calls are in flight, and the request does not say to which of them it belongs; no client was asked"}
