package inbound

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"

	"github.com/mcpvisor/mcpvisor/internal/argcheck"
	"github.com/mcpvisor/mcpvisor/transport"
)

// The modes of an elicitation (MCP, client, elicitation). A missing mode means a form.
const (
	elicitForm = "form"
	elicitURL  = "url"
)

// MethodElicited is the only notification that has a handler of the host.
const MethodElicited = "notifications/elicitation/complete"

// checkElicitation returns why an elicitation must not reach a handler; nil if it may. The
// host opens a URL in a browser, so only http and https pass: another scheme could open a
// file or run a program.
func (h *Handler) checkElicitation(by answerer, p *mcp.ElicitParams) error {
	form, link := by.offer.ElicitForm, by.offer.ElicitURL
	switch {
	case p.Mode == elicitURL && !link, (p.Mode == elicitForm || p.Mode == "") && !form:
		return errInvalidParams("this client does not declare that mode of elicitation")
	case p.Mode == elicitURL && p.URL != "" && !isWebAddress(p.URL):
		return errInvalidParams("the URL must have the scheme http or https")
	}
	if err := h.Pool.checkForm(p.RequestedSchema); err != nil {
		return errInvalidParams("requestedSchema: " + err.Error())
	}
	return checkMode(p)
}

// isWebAddress reports whether text is an http or https URL with a host.
func isWebAddress(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Hostname() != ""
}

// elicit answers elicitation/create by the handler of its mode.
func (h *Handler) elicit(ctx context.Context, by *transport.CallHandlers, p mcp.ElicitParams) (*mcp.ElicitResult, error) {
	handler := by.ElicitURL
	if p.Mode != elicitURL {
		handler, p.Mode = by.ElicitForm, elicitForm
	}
	res, err := runHandler(ctx, h, methodElicit, func(ctx context.Context) (*mcp.ElicitResult, error) { return handler(ctx, h.Pool.serverName, &p) })
	if err != nil {
		return nil, err
	}
	switch res.Action {
	case "accept", "decline", "cancel":
	default:
		return nil, h.hideError(zerolog.WarnLevel, methodElicit, fmt.Errorf("the handler returned the action %q; it is accept, decline or cancel", res.Action))
	}
	whole := &mcp.ElicitResult{Meta: res.Meta, Action: res.Action}
	if res.Action != "accept" || p.Mode != elicitForm {
		return whole, nil
	}
	whole.Content = applyDefaults(res.Content, p.RequestedSchema)
	return whole, checkContent(ctx, whole, p.RequestedSchema)
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

// applyDefaults returns a copy of content in which missing fields have the defaults of the
// schema (SEP-1034).
func applyDefaults(content map[string]any, schema any) map[string]any {
	whole := make(map[string]any, len(content))
	maps.Copy(whole, content)
	object, _ := schema.(map[string]any)
	fields, _ := object["properties"].(map[string]any)
	for name, field := range fields {
		about, _ := field.(map[string]any)
		value, ok := about["default"]
		if _, given := whole[name]; ok && !given {
			whole[name] = value
		}
	}
	return whole
}

// handleNotification runs the Elicited handler of the host in a goroutine of its own, for a notification that
// has one.
func (h *Handler) handleNotification(r *sdkrpc.Request) {
	var p mcp.ElicitationCompleteParams
	if r.Method != MethodElicited || h.Pool.Handlers.Elicited == nil || json.Unmarshal(r.Params, &p) != nil {
		return
	}
	go func() {
		_, _ = runHandler(context.Background(), h, MethodElicited, func(ctx context.Context) (*struct{}, error) {
			h.Pool.Handlers.Elicited(ctx, h.Pool.serverName, p.ElicitationID)
			return &struct{}{}, nil
		})
	}()
}
