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
	case !form && !link:
		return by.noElicitation()
	case p == nil:
		return errInvalidParams("the parameters are missing")
	case p.Mode == elicitURL && !link, (p.Mode == elicitForm || p.Mode == "") && !form:
		return errInvalidParams("this client does not declare that mode of elicitation")
	case p.Mode == elicitURL && p.URL != "" && !isWebAddress(p.URL):
		return errInvalidParams("the URL must have the scheme http or https")
	}
	if err := h.Pool.checkForm(p.RequestedSchema); err != nil {
		return errInvalidParams("requestedSchema: " + err.Error())
	}
	return nil // the go-sdk checks the rest
}

// isWebAddress reports whether text is an http or https URL with a host.
func isWebAddress(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Hostname() != ""
}

// elicit implements mcp.ClientOptions.ElicitationHandler. The go-sdk has checked the
// parameters, and checks the result against the requested schema.
func (h *Handler) elicit(ctx context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
	return h.elicitBy(ctx, h.Pool.Handlers.ElicitForm, h.Pool.Handlers.ElicitURL, *req.Params)
}

// elicitBy is elicit with the handlers of the host for both modes.
func (h *Handler) elicitBy(ctx context.Context, handler, link elicitFunc, p mcp.ElicitParams) (*mcp.ElicitResult, error) {
	if p.Mode == elicitURL {
		handler = link
	} else {
		p.Mode = elicitForm
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
	if res.Action == "accept" && p.Mode == elicitForm {
		whole.Content = applyDefaults(res.Content, p.RequestedSchema)
	}
	return whole, nil
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

// elicited implements mcp.ClientOptions.ElicitationCompleteHandler. The go-sdk handles
// notifications one by one, so it must not wait.
func (h *Handler) elicited(_ context.Context, req *mcp.ElicitationCompleteNotificationRequest) {
	h.notifyElicited(req.Params.ElicitationID)
}

// HandleNotification handles a notification that does not pass through the go-sdk.
func (h *Handler) HandleNotification(r *sdkrpc.Request) {
	var p mcp.ElicitationCompleteParams
	if r.Method == MethodElicited && h.Pool.Handlers.Elicited != nil && json.Unmarshal(r.Params, &p) == nil {
		h.notifyElicited(p.ElicitationID)
	}
}

// notifyElicited runs the Elicited handler of the host in a goroutine of its own.
func (h *Handler) notifyElicited(id string) {
	go func() {
		_, _ = runHandler(context.Background(), h, MethodElicited, func(ctx context.Context) (*struct{}, error) {
			h.Pool.Handlers.Elicited(ctx, h.Pool.serverName, id)
			return &struct{}{}, nil
		})
	}()
}
