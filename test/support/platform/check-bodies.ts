// The minimal definition of every type of monitor that can be created.
import { SUITE_BUNDLE } from './bundles.ts'

/** The last part of the path under /v1/checks, and the required fields of the type. */
export const CHECK_BODIES: [part: string, own: Record<string, unknown>][] = [
  [
    'api',
    { request: { method: 'POST', url: 'https://example.org/', body: '{}', bodyType: 'JSON' } },
  ],
  ['url', { request: { url: 'https://example.org/' } }],
  ['tcp', { request: { hostname: 'example.org', port: 25 } }],
  ['dns', { request: { query: 'example.org', recordType: 'A' } }],
  ['icmp', { request: { hostname: 'example.org' } }],
  ['ssl', { request: { sslConfig: { hostname: 'example.org' } } }],
  [
    'grpc',
    { request: { url: 'example.org', port: 50051, grpcConfig: { mode: 'HEALTH', service: '' } } },
  ],
  ['traceroute', { request: { url: 'example.org' } }],
  ['browser', { script: 'await page.goto("https://example.org/")' }],
  ['multistep', { script: 'test("x", async () => {})', runtimeId: '2026.04' }],
  ['playwright', { codeBundlePath: SUITE_BUNDLE, engine: 'node', engineVersion: '24' }],
]
