package browser

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/web"
)

// A browser without the token gets a form, which leads to the page. The token is in no address.
func TestLogin_by_the_form(t *testing.T) {
	c := newClient(t)
	register(t, c, process("fs", mcptest.Script{}))
	s := serve(t, c, nil, web.WithToken("secret-secret"))
	p := newTab(t, s.URL)
	p.allow("401")
	p.do(chromedp.Navigate(s.URL + prefix + "/"))
	p.has("h1", "mcpvisor")
	p.wait(`document.activeElement.id === "token"`) // the browser moves the focus when it first shows the form
	enter := func(token string) {
		t.Helper()
		eval[bool](p, `(document.getElementById("token").value = "`+token+`", document.querySelector("button").click(), true)`)
	}
	enter("wrong")
	p.has("[role=alert]", "not the token")
	enter("secret-secret")
	p.has("#server-rows", "fs")
	require.Equal(t, s.URL+prefix+"/", eval[string](p, `location.href`))
}
