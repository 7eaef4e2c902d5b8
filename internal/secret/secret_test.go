package secret

import (
	"encoding/base64"
	"encoding/json"
	"html"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// canary is a secret that has the form of a word. jwt and token have the form of secrets.
const (
	canary = "canary-0815"
	jwt    = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJjYW5hcnkifQ.c2lnbmF0dXJlLWNhbmFyeQ"
	token  = "NjY4Yzg3ZTYtYjU1My00"
)

// hidden returns text without the secrets of an environment and of arguments.
func hidden(text string, env, args []string) string {
	var l List
	l.AddEnv(env)
	l.AddArgs(args)
	return l.Replacer().Replace(text)
}

func TestList_secrets(t *testing.T) {
	for name, c := range map[string]struct {
		env, args []string
		secret    string
	}{
		"header as an argument":             {nil, []string{"--header", "Authorization: Bearer " + canary}, canary},
		"header in a flag":                  {nil, []string{"--header=Authorization: Bearer " + canary}, canary},
		"header without a space":            {nil, []string{"--header", "Authorization:Bearer " + canary}, canary},
		"JWT in a header":                   {nil, []string{"--header", "Authorization: Bearer " + jwt}, jwt},
		"JWT in a header without flag":      {nil, []string{"Authorization: Bearer " + jwt}, jwt},
		"key in a header":                   {nil, []string{"--header", "X-API-Key: " + canary}, canary},
		"key in a short flag":               {nil, []string{"-H", "X-API-Key:" + canary}, canary},
		"header of any name":                {nil, []string{"-H", "X-Workspace: " + canary}, canary},
		"basic login":                       {nil, []string{"-H", "Authorization: Basic bWU6Y2FuYXJ5LTA4MTU="}, canary},
		"headers as JSON":                   {[]string{`OPENAPI_MCP_HEADERS={"Authorization":"Bearer ` + canary + `","Notion-Version":"2022-06-28"}`}, nil, canary},
		"headers of any name as JSON":       {[]string{`HEADERS={"X-Workspace":"` + canary + `"}`}, nil, canary},
		"headers of OpenTelemetry":          {[]string{"OTEL_EXPORTER_OTLP_HEADERS=a=b,x-api-key=" + canary}, nil, canary},
		"JSON within JSON":                  {[]string{`CONFIG={"servers":[{"env":"{\"password\":\"` + canary + `\"}"}]}`}, nil, canary},
		"number in JSON":                    {[]string{`CONFIG={"password": 1234567890}`}, nil, "1234567890"},
		"JSON as an argument":               {nil, []string{"--config", `{"apiKey": "` + canary + `"}`}, canary},
		"first query parameter":             {nil, []string{"https://h.example/mcp?api_key=" + canary + "&b=1"}, canary},
		"second query parameter":            {nil, []string{"https://h.example/mcp?profile=x&api_key=" + canary}, canary},
		"second query parameter in a flag":  {nil, []string{"--url=https://h.example/mcp?profile=x&api_key=" + canary}, canary},
		"query parameter of a plain name":   {nil, []string{"https://h.example/mcp?profile=x&b=" + canary}, canary},
		"query of a URL in the environment": {[]string{"ENDPOINT=https://h.example/mcp?a=b&token=" + canary}, nil, canary},
		"escaped query":                     {[]string{"ENDPOINT=https://h.example/mcp?token=can%61ry-0815"}, nil, canary},
		"fragment":                          {[]string{"ENDPOINT=https://h.example/#access_token=" + canary}, nil, canary},
		"path of a URL":                     {nil, []string{"https://h.example/api/s/" + token + "/mcp"}, token},
		"announced in the path of a URL":    {nil, []string{"https://h.example/s/" + canary + "/mcp"}, canary},
		"UUID in the path of a URL":         {[]string{"ENDPOINT=https://h.example/5a2f9c1e-77d0-4a3b-9f10-2c6d8e4b1a90/x"}, nil, "5a2f9c1e-77d0-4a3b-9f10-2c6d8e4b1a90"},
		"password of a proxy":               {[]string{"HTTPS_PROXY=http://me:" + canary + "@proxy.example:3128"}, nil, canary},
		"user of a URL":                     {nil, []string{"https://" + canary + "@git.example/x"}, canary},
		"connection string":                 {[]string{"DB=Server=db,1433;User Id=me;Password=" + canary + ";Encrypt=true"}, nil, canary},
		"connection string as an argument":  {nil, []string{"Server=db;Database=x;Password=" + canary}, canary},
		"connection string with spaces":     {[]string{"DB=host=db user=me password=" + canary + " sslmode=require"}, nil, canary},
		"quoted password":                   {[]string{`DB=Server=db;Pwd="` + canary + `;x";A=b`}, nil, canary + ";x"},
		"JDBC":                              {[]string{"DB=jdbc:sqlserver://db:1433;user=me;password=" + canary + ";encrypt=true"}, nil, canary},
		"login without a scheme":            {[]string{"DSN=me:" + canary + "@tcp(db:3306)/x"}, nil, canary},
		"login of curl":                     {nil, []string{"-u", "me:" + canary}, canary},
		"line of a shell":                   {nil, []string{"-c", "curl -H 'Authorization: Bearer " + canary + "' https://h.example"}, canary},
		"variable in a line of a shell":     {nil, []string{"-c", "API_TOKEN=" + canary + " exec server --x"}, canary},
		"variable of docker":                {nil, []string{"run", "-e", "API_TOKEN=" + canary, "image"}, canary},
		"token in a text":                   {nil, []string{"--init", "use ghp_16C7e42F292c6912E7710c838347 please"}, "ghp_16C7e42F292c6912E7710c838347"},
		"value that begins like a flag":     {nil, []string{"--token", "-" + canary}, "-" + canary},
	} {
		t.Run(name, func(t *testing.T) {
			require.NotContains(t, hidden("sent: "+c.secret+" and <"+c.secret+">", c.env, c.args), c.secret)
		})
	}
}

// Values that explain a failure are shown.
func TestList_no_secrets(t *testing.T) {
	env := []string{"PATH=/usr/local/bin:/usr/bin", "XAUTHORITY=/run/user/1000/gdm/Xauthority", "SSH_AUTH_SOCK=/tmp/ssh-XyZ12abc/agent.42", "KUBECONFIG=/home/.kube/config",
		"HTTP_PROXY=http://proxy.example:3128", "NO_PROXY=localhost,127.0.0.1", "MAX_TOKENS=100000", "GIT_AUTHOR_NAME=Gustav", "AUTH_TYPE=bearer",
		"DATABASE_URL=postgres://db.example:5432/orders?sslmode=verify-full&schema=public", "XDG_RUNTIME_DIR=/run/user/1000", "NODE_ENV=production",
		`SETTINGS={"level":"verbose","paths":["/srv/data"]}`, "LS_COLORS=rs=0:di=01;34:ln=01;36", "TOKEN_FILE=/run/secrets/github"}
	args := []string{"-y", "@modelcontextprotocol/server-filesystem@2025.8.21", "/srv/projects/some-long-name-2025", "--header", "Accept: application/json",
		"--url", "https://mcp.example.com/v1/projects/customer-support-2025/mcp", "npm:lodash@4.17.21", "--root", "C:\\Users\\me\\Documents\\Project1"}
	for _, entry := range append(env, args...) {
		require.Equal(t, entry, hidden(entry, env, args))
	}
}

func TestRedactURL(t *testing.T) {
	for text, want := range map[string]string{
		"https://me:pw@h.example/mcp?key=1#x":                        "https://h.example/mcp",
		"https://h.example/api/s/" + token + "/mcp":                  "https://h.example/api/s/***/mcp",
		"https://h.example/s/secretword/mcp":                         "https://h.example/s/***/mcp",
		"https://h.example/%4ejY4Yzg3ZTYtYjU1My00/a%20b":             "https://h.example/***/a%20b",
		"https://h.example/0123456789abcdef":                         "https://h.example/***",
		"https://h.example/MyProject2025Server/v2-2025-06-18":        "https://h.example/MyProject2025Server/v2-2025-06-18",
		"https://h.example/servers/model-context-protocol/mcp":       "https://h.example/servers/model-context-protocol/mcp",
		"https://h.example":                                          "https://h.example",
		"http://[::1]:8080/mcp/":                                     "http://[::1]:8080/mcp/",
		"https://h.example/5a2f9c1e-77d0-4a3b-9f10-2c6d8e4b1a90/sse": "https://h.example/***/sse",
	} {
		u, err := url.Parse(text)
		require.NoError(t, err)
		require.Equal(t, want, RedactURL(u), text)
	}
}

func TestList_AddEndpoint(t *testing.T) {
	u, err := url.Parse("https://h.example/s/" + token + "/mcp?a=" + canary)
	require.NoError(t, err)
	var l List
	l.AddEndpoint(u)
	l.AddHeader("Cookie", "a=cookie-one; b=cookie-two")
	require.Equal(t, "*** *** *** ***", l.Replacer().Replace(token+" "+canary+" cookie-one cookie-two"))
}

func TestList_short_secret(t *testing.T) {
	require.Equal(t, "short", hidden("short", []string{"API_KEY=short"}, nil))
}

func TestRedactURI(t *testing.T) {
	for uri, want := range map[string]string{
		"":                                "",
		"file:///a/b@c":                   "file:///a/b@c",
		"note:1":                          "note:1",
		"db://user:p@ss@host:1/a@b":       "db://***@host:1/a@b",
		"db://user:pass@host":             "db://***@host",
		"x://h/p?a=1&token=t;b=2&bare#at": "x://h/p?a=***&token=***&b=***&***#***",
		"x://h?":                          "x://h?",
		"%zz://user@h/?a=b=c":             "%zz://***@h/?a=***",
	} {
		require.Equal(t, want, RedactURI(uri), uri)
	}
}

// A secret is masked in every form in which an honest server may repeat it.
func TestList_forms(t *testing.T) {
	for _, s := range []string{canary, token, `a "b"/c<d>&e'f+g h`, "pässwörd-😀-0815", "p(a)s*s!w~o_r.d", "back\\slash=0815"} {
		var l List
		l.Add(s)
		mask := l.Replacer()
		plainJSON := func() string {
			var b strings.Builder
			e := json.NewEncoder(&b)
			e.SetEscapeHTML(false)
			require.NoError(t, e.Encode("key "+s))
			return b.String()
		}()
		goJSON, err := json.Marshal("key " + s)
		require.NoError(t, err)
		for name, text := range map[string]string{
			"as it is":             "key " + s + ", no",
			"JSON":                 plainJSON,
			"JSON of Go":           string(goJSON),
			"JSON with \\/":        strings.ReplaceAll(plainJSON, "/", `\/`),
			"query":                url.Values{"key": {s}}.Encode(),
			"query, lower case":    lowerEscapes(url.QueryEscape(s)),
			"path":                 "/a/" + url.PathEscape(s) + "/b",
			"HTML":                 "<p>" + html.EscapeString(s) + "</p>",
			"base64":               base64.StdEncoding.EncodeToString([]byte(s)),
			"base64 of a URL":      base64.URLEncoding.EncodeToString([]byte(s)),
			"encodeURIComponent":   strings.NewReplacer("+", "%20", "%21", "!", "%27", "'", "%28", "(", "%29", ")", "%2A", "*").Replace(url.QueryEscape(s)),
			"ASCII, as Python has": asciiJSON(plainJSON),
		} {
			require.Contains(t, mask.Replace(text), Mask, "%s of %s: %s", name, s, text)
			require.NotContains(t, mask.Replace(text), s)
		}
		for _, before := range []string{"", "u", "me", "user:"} { // the three ways to lie in base64
			text := base64.StdEncoding.EncodeToString([]byte(before + s + ":x"))
			masked := mask.Replace(text)
			require.Contains(t, masked, Mask, "%s in %s", s, text)
			require.Less(t, len(masked), 24, "only the text around the secret stays")
		}
	}
}

// Each line of a secret is masked: a server may write one line at a time.
func TestList_lines(t *testing.T) {
	const pem = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\r\n  BKcwggSjAgEAAoIBAQDZ/3h+y8Kz2uX1  \n-----END PRIVATE KEY-----\n"
	for name, add := range map[string]func(*List){
		"declared":          func(l *List) { l.Add(pem) },
		"variable":          func(l *List) { l.AddEnv([]string{"TLS_KEY=" + pem}) },
		"variable, as \\n":  func(l *List) { l.AddEnv([]string{"TLS_KEY=" + strings.ReplaceAll(pem, "\n", `\n`)}) },
		"declared, as \\n":  func(l *List) { l.Add(strings.ReplaceAll(pem, "\n", `\n`)) },
		"declared, as \\r ": func(l *List) { l.Add(strings.ReplaceAll(pem, "\n", "\r")) },
	} {
		var l List
		add(&l)
		mask := l.Replacer()
		for _, line := range []string{"MIIEvQIBADANBgkqhkiG9w0BAQEFAASC", "BKcwggSjAgEAAoIBAQDZ/3h+y8Kz2uX1"} {
			require.Equal(t, "cannot read ***", mask.Replace("cannot read "+line), name)
			require.Equal(t, `{"line":"***"}`, mask.Replace(`{"line":"`+strings.ReplaceAll(line, "/", `\/`)+`"}`), name)
		}
	}
}

// A secret of digits is masked however a program writes the number, unless that is too short.
func TestList_numbers(t *testing.T) {
	for secret, texts := range map[string][]string{
		"1234567":              {"1234567", "1234567.0", "1.234567e6", "1.234567e+06", "1.234567E6", "1.234567E+06", "1.234567e+6"},
		"12345600":             {"1.23456e7", "1.23456E+07"},
		"0123456":              {"123456", "1.23456e+05"},
		"1234.50":              {"1234.5", "1.2345e3"},
		"12345678901234567890": {"12345678901234567000", "1.2345678901234567e+19", "1.2345678901234567e19"},
	} {
		var l List
		l.Add(secret)
		for _, text := range texts {
			require.Contains(t, l.Replacer().Replace("("+text+")"), Mask, "%s as %s", secret, text)
		}
	}
	var l List
	l.Add("100000", "abcdef")
	require.Equal(t, "1e+05 1e5 123456 abcde0", l.Replacer().Replace("1e+05 1e5 123456 abcde0"))
}
