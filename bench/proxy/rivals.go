package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// nginx forwards to the service, or gives a refusal when there is one. It has one
// worker, as it has one processor, and enough kept connections.
func (s *stage) nginx(ctx context.Context, refusing *refusal) (*process, error) {
	return start(ctx, s.cpus.proxy, "nginx", func(addr string) ([]string, error) {
		dir, err := os.MkdirTemp(s.dir, "nginx")
		if err != nil {
			return nil, err
		}
		answer := `location / {
      proxy_pass http://service;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Host $http_host;
      proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
    }`
		if refusing != nil {
			if answer, err = nginxRefusal(refusing); err != nil {
				return nil, err
			}
		}
		user := ""
		if os.Getuid() == 0 {
			user = "user root;"
		}
		return nginxCommand(dir, fmt.Sprintf(`%s
daemon off;
worker_processes 1;
pid nginx.pid;
error_log stderr crit;
events { worker_connections 2048; }
http {
  access_log off;
  client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;
  client_body_buffer_size 32k;
  keepalive_requests 100000000;
  upstream service { server %s; keepalive %d; keepalive_requests 100000000; }
  server { listen %s; %s }
}
`, user, s.service.addr, idle, addr, answer))
	})
}

func nginxCommand(dir, conf string) ([]string, error) {
	file := filepath.Join(dir, "nginx.conf")
	return []string{"nginx", "-p", dir, "-e", "stderr", "-c", file}, os.WriteFile(file, []byte(conf), 0o600)
}

// nginxRefusal gives the answer from memory.
func nginxRefusal(a *refusal) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "default_type %s;\n", nginxQuoted(a.Header.Get("Content-Type")))
	for _, name := range slices.Sorted(maps.Keys(a.Header)) {
		if name == "Content-Type" {
			continue
		}
		for _, value := range a.Header[name] {
			fmt.Fprintf(&b, "add_header %s %s always;\n", name, nginxQuoted(value))
		}
	}
	fmt.Fprintf(&b, "location / { return %d %s; }\n", a.Status, nginxQuoted(a.Body))
	if strings.Contains(b.String(), "$") {
		return "", fmt.Errorf("nginx cannot quote the dollar sign in %s", &b)
	}
	return b.String(), nil
}

func nginxQuoted(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// haproxy shares its kept connections between all callers, as the others do.
func (s *stage) haproxy(ctx context.Context) (*process, error) {
	return start(ctx, s.cpus.proxy, "HAProxy", func(addr string) ([]string, error) {
		file := filepath.Join(s.dir, "haproxy.cfg")
		conf := fmt.Sprintf(`global
  maxconn 4096
  nbthread 1
defaults
  mode http
  timeout connect 5s
  timeout client 60s
  timeout server 60s
  option forwardfor
  http-reuse always
frontend front
  bind %s
  default_backend back
backend back
  server service %s pool-max-conn %d
`, addr, s.service.addr, idle)
		return []string{"haproxy", "-q", "-db", "-f", file}, os.WriteFile(file, []byte(conf), 0o600)
	})
}

// caddy is built as its makers build it.
func (s *stage) caddy(ctx context.Context) (*process, error) {
	if err := s.build(ctx, "github.com/comporta/comporta/bench", "rivals", "caddy", "github.com/caddyserver/caddy/v2/cmd/caddy"); err != nil {
		return nil, err
	}
	return start(ctx, s.cpus.proxy, "Caddy", func(addr string) ([]string, error) {
		file := filepath.Join(s.dir, "caddy.json")
		conf := fmt.Sprintf(`{
  "admin": {"disabled": true, "config": {"persist": false}},
  "logging": {"logs": {"default": {"level": "ERROR"}}},
  "apps": {"http": {"servers": {"bench": {
    "listen": [%q], "automatic_https": {"disable": true},
    "routes": [{"handle": [{"handler": "reverse_proxy", "upstreams": [{"dial": %q}],
      "transport": {"protocol": "http", "compression": false, "keep_alive": {"max_idle_conns_per_host": %d}}}]}]
  }}}}
}`, addr, s.service.addr, idle)
		return []string{filepath.Join(s.dir, "caddy"), "run", "--config", file}, os.WriteFile(file, []byte(conf), 0o600)
	})
}

// role is this program in one of its roles.
func (s *stage) role(ctx context.Context, cpu int, role string, more ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return start(ctx, cpu, role, func(addr string) ([]string, error) {
		args := []string{self, roleCommand, role, "-listen", addr}
		if s.service != nil {
			args = append(args, "-upstream", s.service.addr)
		}
		return append(args, more...), nil
	})
}
