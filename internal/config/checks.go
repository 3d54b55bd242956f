package config

import (
	"net"
	"net/http"
	"net/netip"
	"net/textproto"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/comporta/comporta"
)

// checks are the rules for text that a tag can name.
var checks = map[string]func(string) *fault{
	"addr":        checkAddr,
	"client":      checkClient,
	"cookie":      checkCookie,
	"file":        checkText,
	"header":      checkHeader,
	"healthpath":  checkHealthPath,
	"headername":  checkHeaderName,
	"jwks":        checkJWKS,
	"method":      checkMethod,
	"name":        checkName,
	"origin":      checkOrigin,
	"pattern":     checkPattern,
	"rate":        checkRateText,
	"ratehost":    checkRateHost,
	"ratekey":     checkRateKey,
	"ratepath":    checkRatePath,
	"ratestore":   checkRateStore,
	"redis":       checkRedisURL,
	"redisprefix": checkRedisPrefix,
	"rule":        checkRule,
	"sha256":      checkSHA256,
	"storeurl":    checkStoreURL,
	"text":        checkText,
	"typebase":    checkTypeBase,
	"upstream":    checkUpstream,
	"version":     checkVersion,
	"zone":        checkZone,
}

func checkText(text string) *fault {
	switch {
	case text == "":
		return &fault{message: "is empty"}
	case strings.ContainsAny(text, "\x00\r\n"):
		return &fault{message: show(text) + " has a line break or a NUL in it"}
	}
	return nil
}

func checkAddr(text string) *fault {
	const hint = "host:port, or :port for every address of the machine"
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		f := &fault{show(text) + " is not an address to listen on", hint}
		if _, bare := parseInt(text); bare == nil {
			f.hint = "did you mean :" + text + "?"
		}
		return f
	}
	if n, bad := parseInt(port); bad != nil || n < 0 || n > 65535 {
		return &fault{show(text) + ": the port is not a number up to 65535", hint}
	}
	if _, err := netip.ParseAddr(host); err != nil && host != "" && !hostname.MatchString(host) {
		return &fault{show(text) + ": the host is neither an address nor a name", hint}
	}
	return nil
}

var hostname = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,252}[A-Za-z0-9.])?$`)

// loopback reports whether an address to listen on can only be reached from the
// machine itself.
func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}

var headerToken = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,256}$")

// checkHeader refuses headers that cannot name a client: those that net/http
// takes out of the header, that the gateway itself writes, or that any hop may
// change.
func checkHeader(text string) *fault {
	if !headerToken.MatchString(text) {
		return &fault{show(text) + " is not the name of a header", "such as X-Api-Key"}
	}
	name := textproto.CanonicalMIMEHeaderKey(strings.ReplaceAll(text, "_", "-"))
	switch {
	case name == "Forwarded" || name == "X-Real-Ip" || strings.HasPrefix(name, "X-Forwarded-"):
		return &fault{show(text) + " says where a request comes from, not who asks", "use {network: {}}, and list the proxies in clients.trusted_proxies"}
	case strings.HasPrefix(name, "Comporta-"):
		return &fault{show(text) + " is the gateway's own: it is deleted from every request", "choose a header that your clients send"}
	}
	switch name {
	case "Host", "Connection", "Transfer-Encoding", "Trailer", "Te", "Upgrade", "Keep-Alive", "Content-Length", "Proxy-Connection":
		return &fault{show(text) + " belongs to the connection, not to the client", "choose a header that your clients send, such as X-Api-Key"}
	}
	return nil
}

var cookieToken = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}$")

// checkCookie never repeats the text: who misreads the key puts the value there.
func checkCookie(text string) *fault {
	if !cookieToken.MatchString(text) {
		return &fault{"not the name of a cookie", "the name alone, such as session"}
	}
	return nil
}

var nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

func checkName(text string) *fault {
	if !nameForm.MatchString(text) {
		return &fault{show(text) + " is not a name", "up to 64 letters, digits, dots, dashes and underscores"}
	}
	return nil
}

func checkClient(text string) *fault {
	if _, ok := comporta.ParseClientVersion(text + "/1.0.0"); !ok {
		return &fault{show(text) + " is not the name of a client program", "the part before the slash in Client-Version: acme-go/2.1.0"}
	}
	return nil
}

func checkVersion(text string) *fault {
	if _, ok := comporta.ParseVersion(text); !ok {
		return &fault{show(text) + " is not a version", "major.minor.patch: 2.1.0"}
	}
	return nil
}

var hexPrefix = regexp.MustCompile(`^[0-9a-f]{8,64}$`)

// checkSHA256 never repeats the value: who misreads the key puts the credential there.
func checkSHA256(text string) *fault {
	if hexPrefix.MatchString(text) {
		return nil
	}
	return &fault{"not the beginning of a SHA-256", "8 to 64 lower-case hexadecimal digits: printf %s \"$KEY\" | sha256sum | cut -c1-16"}
}

// checkPattern asks http.ServeMux itself, which panics on a pattern that it
// cannot read.
func checkPattern(text string) *fault {
	method, _, found := strings.Cut(text, " ")
	switch {
	case !found:
	case method == http.MethodConnect:
		return &fault{"CONNECT is never forwarded, so the route can match nothing", "remove the route"}
	case method != strings.ToUpper(method):
		return &fault{show(method) + " is no method: methods are upper case", "did you mean " + strings.ToUpper(method) + "?"}
	}
	if !clean(text) {
		return &fault{show(text) + " can match nothing: its path is not canonical", "paths are compared without empty, . and .. segments"}
	}
	if why := register(http.NewServeMux(), text); why != "" {
		// `parsing "…": at offset 6: what` begins with what the line shows anyway.
		if _, rest, ok := strings.Cut(why, `": `); ok {
			why = rest
		}
		return &fault{show(text) + " is not a pattern", why}
	}
	return nil
}

// clean reports whether the path of a pattern is canonical. The mux itself looks
// only where a method is given.
func clean(pattern string) bool {
	_, path, ok := strings.Cut(pattern, "/")
	if !ok {
		return true // no path at all: the mux says so
	}
	segments := strings.Split(path, "/")
	for j, s := range segments {
		if s == "." || s == ".." || s == "" && j < len(segments)-1 {
			return false
		}
	}
	return true
}

// register adds a pattern to mux and returns why that could not be.
func register(mux *http.ServeMux, pattern string) (why string) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case error:
			why = p.Error()
		case string:
			why = p
		default:
			why = "it cannot be read"
		}
	}()
	mux.Handle(pattern, http.NotFoundHandler())
	return ""
}

// parseHTTP reads an absolute http or https URL with a host. It never repeats
// the error of net/url, which holds the credentials.
func parseHTTP(text, hint string) (*url.URL, *fault) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, &fault{show(text) + " is not a URL", hint}
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, &fault{show(text) + " is not a URL with http:// or https://", hint}
	case u.Hostname() == "":
		return nil, &fault{show(text) + " has no host", hint}
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return nil, &fault{show(text) + ": the port is not a number up to 65535", hint}
		}
	}
	return u, nil
}

func checkUpstream(text string) *fault {
	const hint = "scheme, host and port: http://127.0.0.1:3000"
	plain := text
	if rest, ok := strings.CutPrefix(text, "h2c://"); ok {
		plain = "http://" + rest
	}
	u, f := parseHTTP(plain, hint)
	switch {
	case f != nil:
		return f
	case u.User != nil:
		return &fault{show(text) + " has credentials, but callers bring their own", hint}
	case u.Path != "" && u.Path != "/":
		return &fault{show(text) + " has a path, but requests keep their own", hint}
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return &fault{show(text) + " has a query or a fragment", hint}
	}
	return nil
}

func checkHealthPath(text string) *fault {
	u, err := url.ParseRequestURI(text)
	if err != nil || !strings.HasPrefix(text, "/") || strings.HasPrefix(text, "//") || u.Host != "" {
		return &fault{show(text) + " is not a path", "such as /healthz: the scheme and the host are those of each address"}
	}
	return nil
}

// checkJWKS wants what can be believed: whoever stands between could hand out keys,
// and with them identities.
func checkJWKS(text string) *fault {
	const hint = "where the issuer publishes its keys: https://issuer.example/.well-known/jwks.json"
	u, f := parseHTTP(text, hint)
	switch {
	case f != nil:
		return f
	case u.User != nil:
		return &fault{show(text) + " has credentials, but a key set is public", hint}
	case u.Scheme == "http" && !loopback(net.JoinHostPort(u.Hostname(), "80")):
		return &fault{show(text) + " is not protected on its way", "https://, or http:// on loopback"}
	}
	return nil
}

func checkTypeBase(text string) *fault {
	_, f := parseHTTP(text, "the address of your own page of problems: https://example.com/problems")
	return f
}

func checkOrigin(text string) *fault {
	const hint = "scheme, host and port as a browser sends them: https://app.example.com"
	if text == "*" {
		return &fault{"* is what every other origin gets anyway, without credentials", "list the origins that send credentials, or nothing"}
	}
	u, f := parseHTTP(text, hint)
	switch {
	case f != nil:
		return f
	case u.Path != "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil || u.ForceQuery:
		return &fault{show(text) + " is more than an origin", hint}
	case text != strings.ToLower(text):
		return &fault{show(text) + " is not written as a browser writes it", "in lower case: " + strings.ToLower(text)}
	}
	return nil
}
