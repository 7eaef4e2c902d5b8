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

// The modes of an elicitation. None at all is a form.
const (
	elicitForm = "form"
	elicitURL  = "url"
)

// checkElicitation says why an elicitation cannot be passed on. A URL is for
// a browser: any other scheme could make a host open a file or run a program.
func (a *Handler) checkElicitation(p *mcp.ElicitParams) error {
	form, link := a.Handlers.ElicitForm != nil, a.Handlers.ElicitURL != nil
	switch {
	case !form && !link:
		return errNotOffered("elicitation")
	case p == nil:
		return errInvalidParams("the parameters are missing")
	case p.Mode == elicitURL && !link, (p.Mode == elicitForm || p.Mode == "") && !form:
		return errInvalidParams("this client does not declare that mode of elicitation")
	case p.Mode == elicitURL && p.URL != "" && !isWebAddress(p.URL):
		return errInvalidParams("the URL is not one of http or https")
	}
	if err := CheckForm(p.RequestedSchema); err != nil {
		return errInvalidParams("requestedSchema: " + err.Error())
	}
	return nil // the rest is the go-sdk's to judge
}

func isWebAddress(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Hostname() != ""
}

// elicit is what the go-sdk calls, with parameters that it has checked. It
// checks the answer against the requested schema afterwards.
func (a *Handler) elicit(ctx context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
	p := *req.Params
	handler := a.Handlers.ElicitForm
	if p.Mode == elicitURL {
		handler = a.Handlers.ElicitURL
	} else {
		p.Mode = elicitForm
	}
	res, err := runHandler(ctx, a, methodElicit, func(ctx context.Context) (*mcp.ElicitResult, error) { return handler(ctx, a.serverName, &p) })
	if err != nil {
		return nil, err
	}
	switch res.Action {
	case "accept", "decline", "cancel":
	default:
		return nil, a.hideError(zerolog.WarnLevel, methodElicit, fmt.Errorf("the handler returned the action %q; it is accept, decline or cancel", res.Action))
	}
	whole := &mcp.ElicitResult{Meta: res.Meta, Action: res.Action}
	if res.Action == "accept" && p.Mode == elicitForm {
		whole.Content = applyDefaults(res.Content, p.RequestedSchema)
	}
	return whole, nil
}

// applyDefaults is a copy of content in which fields that are missing have the
// schema's defaults (SEP-1034).
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

// elicited is what the go-sdk calls, which handles notifications one by one:
// so it must not wait.
func (a *Handler) elicited(_ context.Context, req *mcp.ElicitationCompleteNotificationRequest) {
	a.notifyElicited(req.Params.ElicitationID)
}

// HandleNotification takes a notification that the go-sdk does not get to see.
func (a *Handler) HandleNotification(r *sdkrpc.Request) {
	var p mcp.ElicitationCompleteParams
	if r.Method == "notifications/elicitation/complete" && a.Handlers.Elicited != nil && json.Unmarshal(r.Params, &p) == nil {
		a.notifyElicited(p.ElicitationID)
	}
}

func (a *Handler) notifyElicited(id string) {
	go func() {
		_, _ = runHandler(context.Background(), a, "notifications/elicitation/complete", func(ctx context.Context) (*struct{}, error) {
			a.Handlers.Elicited(ctx, a.serverName, id)
			return &struct{}{}, nil
		})
	}()
}
