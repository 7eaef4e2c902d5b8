package inbound

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"

	"github.com/mcpvisor/mcpvisor/internal/argcheck"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
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

type (
	sampleFunc = func(ctx context.Context, server string, p *mcp.CreateMessageWithToolsParams) (*mcp.CreateMessageWithToolsResult, error)
	elicitFunc = func(ctx context.Context, server string, p *mcp.ElicitParams) (*mcp.ElicitResult, error)
)

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

// The errors of a request that the answerer does not answer.

func (a answerer) noRoots() error    { return errNotOffered("roots", a.declared.Roots) }
func (a answerer) noSampling() error { return errNotOffered("sampling", a.declared.Sample) }
func (a answerer) noElicitation() error {
	return errNotOffered("elicitation", a.declared.ElicitForm || a.declared.ElicitURL)
}

// checkMethod returns why the answerer answers no request of a method; nil if it may.
func (a answerer) checkMethod(method string) error {
	switch method {
	case methodRoots:
		if !a.offer.Roots {
			return a.noRoots()
		}
	case methodSample:
		if !a.offer.Sample {
			return a.noSampling()
		}
	case methodElicit:
		if !a.offer.ElicitForm && !a.offer.ElicitURL {
			return a.noElicitation()
		}
	default:
		return errUnknownMethod
	}
	return nil
}

// answerCall answers a request, which was checked, by the handlers of a call. It does what the
// go-sdk does for the handlers of the client, of which its client knows one set.
func (h *Handler) answerCall(ctx context.Context, by *transport.CallHandlers, req mcp.Request) (mcp.Result, error) {
	switch p := req.GetParams().(type) {
	case *mcp.CreateMessageWithToolsParams:
		return nilOnError(h.sampleBy(ctx, by.Sample, p))
	case *mcp.ElicitParams:
		if err := checkMode(p); err != nil {
			return nil, err
		}
		res, err := h.elicitBy(ctx, by.ElicitForm, by.ElicitURL, *p)
		if err == nil {
			err = checkContent(ctx, res, p.RequestedSchema)
		}
		return nilOnError(res, err)
	default:
		return nilOnError(runHandler(ctx, h, methodRoots, func(ctx context.Context) (*mcp.ListRootsResult, error) {
			roots, err := by.Roots(ctx, h.Pool.serverName)
			return &mcp.ListRootsResult{Roots: append([]*mcp.Root{}, roots...)}, err // never null
		}))
	}
}

// nilOnError returns a result as an interface, which is nil if there is an error.
func nilOnError[R mcp.Result](res R, err error) (mcp.Result, error) {
	if err != nil {
		return nil, err
	}
	return res, nil
}

// checkMode returns what is wrong with the parameters of an elicitation for its mode.
func checkMode(p *mcp.ElicitParams) error {
	switch link := p.Mode == elicitURL; {
	case p.Mode != "" && p.Mode != elicitForm && !link:
		return errInvalidParams(fmt.Sprintf("unsupported elicitation mode: %.40q", p.Mode))
	case link && p.RequestedSchema != nil:
		return errInvalidParams("requestedSchema must not be set for URL elicitation")
	case link && p.URL == "":
		return errInvalidParams("URL must be set for URL elicitation")
	case !link && p.URL != "":
		return errInvalidParams("URL must not be set for form elicitation")
	}
	return nil
}

// checkContent compares what the user entered into a form with its schema, which is a flat form
// (CheckForm).
func checkContent(ctx context.Context, res *mcp.ElicitResult, form any) error {
	if res.Action != "accept" || res.Content == nil || form == nil {
		return nil
	}
	schema, err := json.Marshal(form)
	var content []byte
	if err == nil {
		content, err = json.Marshal(res.Content)
	}
	if err != nil {
		return err // not of the server
	}
	var checker argcheck.Checker
	if found := checker.Check(ctx, schema, content, argcheck.Options{}); len(found.Violations) > 0 {
		v := found.Violations[0]
		return errInvalidParams(fmt.Sprintf("elicitation result content does not match requested schema: %s %s", v.Path, v.Reason))
	}
	return nil
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
	return jsonrpc.OneLine(text), nil
}

// errAmbiguous refuses a request that may belong to calls of several answerers.
var errAmbiguous = &sdkrpc.Error{Code: CodeTooManyRequests,
	Message: "several calls are in flight, and the request does not say to which of them it belongs; no client was asked"}
