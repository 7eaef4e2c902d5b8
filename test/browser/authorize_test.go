package browser

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/mcptest/oauthtest"
	"github.com/mcpvisor/mcpvisor/oauth"
	"github.com/mcpvisor/mcpvisor/web"
)

// A person authorizes the program at a server from the page, with the address at which the browser ends.
func TestAuthorize_from_the_page(t *testing.T) {
	c := newClient(t)
	remote := mcptest.NewHTTP(mcptest.Script{})
	t.Cleanup(remote.Close)
	guard := oauthtest.NewServer(remote.URL)
	t.Cleanup(guard.Close)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "web", StartSupervised: true, HTTP: &mcpvisor.HTTP{URL: guard.URL, Auth: &oauth.Config{Store: oauth.NewMemoryStore()}}}))
	require.ErrorIs(t, c.WaitReady(t.Context(), "web"), mcpvisor.ErrAuthRequired)
	reader := newPage(t, serve(t, c, nil).URL, prefix+"/#/s/web")
	reader.has("#detail .title", "mcpvisor authorize web")
	require.Zero(t, eval[int](reader, `document.querySelectorAll("[data-act=authorize]").length`), "a page that is read only")
	p := newPage(t, serve(t, c, nil, web.WithControls()).URL, prefix+"/#/s/web")
	p.allow("503") // of a wrong address
	p.click("#detail [data-act=authorize]")
	p.wait(`document.querySelector("#redirect")`)
	for _, width := range []int64{390, 1280} {
		p.media("light", width)
		p.wait(fmt.Sprintf(`innerWidth === %d && document.documentElement.scrollWidth <= innerWidth`, width))
		checkAccess(p, "an authorization")
		if *screenshots != "" {
			shoot(p, fmt.Sprint("authorize-", width))
		}
	}
	finish := func(address string) {
		eval[bool](p, fmt.Sprintf(`(document.querySelector("#redirect").value = %q, document.querySelector("#redirect").form.requestSubmit(), true)`, address))
	}
	finish("http://127.0.0.1:1/callback?state=made-up&code=1")
	p.has("#answer", "The authorization at web failed: ")
	p.wait(`document.querySelector("#redirect").value !== ""`) // it stays while the page follows the server
	link := eval[string](p, `document.querySelector("#redirect").form.querySelector("a").href`)
	browser := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := browser.Get(link)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	finish(answer.Header.Get("Location"))
	p.has("#answer", "This program is authorized at web.")
	p.has("#detail .title", "ready")
	require.Zero(t, eval[int](p, `document.querySelectorAll("#redirect, [data-act=authorize]").length`))
}
