package oauthtest

import (
	"crypto/rand"
	"net/http"
	"net/url"
	"strings"
)

// grantDevice is the grant_type of RFC 8628, section 3.4.
const grantDevice = "urn:ietf:params:oauth:grant-type:device_code"

// device is a login by code.
type device struct {
	grant
	userCode string
	state    string // the error of a poll; empty: approved
}

// startDevice is the device authorization endpoint (RFC 8628, section 3.1).
func (a *Server) startDevice(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	a.mu.Lock()
	defer a.mu.Unlock()
	id, ok := a.authenticate(r)
	if !ok || r.PostForm.Get("resource") != a.URL {
		answerJSON(w, http.StatusBadRequest, map[string]any{"error": "invalid_client"})
		return
	}
	if a.otherGrants[id] {
		answerJSON(w, http.StatusBadRequest, map[string]any{"error": "unauthorized_client"})
		return
	}
	code, userCode := "device-"+rand.Text(), rand.Text()[:8]
	a.devices[code] = device{grant{client: id, scopes: strings.Fields(r.PostForm.Get("scope"))}, userCode, "authorization_pending"}
	page := a.Issuer + "/device"
	answerJSON(w, http.StatusOK, map[string]any{"device_code": code, "user_code": userCode, "verification_uri": page,
		"verification_uri_complete": page + "?user_code=" + userCode, "expires_in": 600, "interval": 1})
}

// approveDevice is the page for the code.
func (a *Server) approveDevice(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for code, d := range a.devices {
		if d.userCode != r.URL.Query().Get("user_code") {
			continue
		}
		if d.state = ""; r.URL.Query().Has("deny") {
			d.state = "access_denied"
		}
		a.devices[code] = d
		w.WriteHeader(http.StatusNoContent)
		return
	}
	http.NotFound(w, r)
}

// deviceGrant returns the grant of a poll, or the error that it is answered with. a.mu is held.
func (a *Server) deviceGrant(form url.Values, id string) (g grant, problem string) {
	code := form.Get("device_code")
	d, known := a.devices[code]
	if !known || d.client != id {
		return g, "invalid_grant"
	}
	if d.state == "" {
		delete(a.devices, code)
	}
	return d.grant, d.state
}
