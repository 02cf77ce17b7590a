// Aim: on the same servers a gRPC health check comes to the same verdict, status code, state of health and
// expiry as Debian's blackbox_exporter; where the exporter knows less, the row says so.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { grpc } from '../../../src/monitors/grpc/index.ts'
import { startExporter, type Exporter } from '../../support/monitors/blackbox-exporter.ts'
import { createAuthority } from '../../support/network/certificates.ts'
import { startGrpcServer, type GrpcServer } from '../../support/monitors/grpc/grpc-server.ts'
import { codes, runGrpc, type Options } from '../../support/monitors/grpc/grpc-run.ts'
import { missing } from '../../support/needs.ts'
import { saying } from '../../support/monitors/tcp-servers.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { startRawServer, type TestServer } from '../../support/test-server.ts'

const why = missing('prometheus-blackbox-exporter', 'openssl')

/** What both of them say. */
interface Outcome {
  success: boolean
  statusCode: number | undefined
  /** Names of the states whose gauge is 1. */
  states: string[]
  ssl: number | undefined
  ip: number | undefined
  expiry: number | undefined
}

const STATES = ['UNKNOWN', 'SERVING', 'NOT_SERVING', 'SERVICE_UNKNOWN']

function outcomeOf(success: boolean, value: (name: string) => number | undefined): Outcome {
  return {
    success,
    statusCode: value('probe_grpc_status_code'),
    states: STATES.filter(
      (state) => value(`probe_grpc_healthcheck_response{serving_status="${state}"}`) === 1,
    ),
    ssl: value('probe_grpc_ssl'),
    ip: value('probe_ip_protocol'),
    // The exporter says 0 where there is none.
    expiry: value('probe_ssl_earliest_cert_expiry') || undefined,
  }
}

describe.skipIf(why !== undefined)(
  `compared with blackbox_exporter${why ? `: ${why}` : ''}`,
  () => {
    const authority = createAuthority()
    const servers: Record<string, { port: number }> = {}
    let plain: GrpcServer
    let secure: GrpcServer
    let short: GrpcServer
    let webServer: TestServer
    let exporter: Exporter

    beforeAll(async () => {
      const caFile = join(temporaryFolder(), 'ca.pem')
      writeFileSync(caFile, authority.ca)
      plain = await startGrpcServer({ health: { '': 1, unknown: 0, down: 2, gone: 3 } })
      secure = await startGrpcServer({ tls: authority.issue() })
      short = await startGrpcServer({ tls: authority.issue({ fromDays: -9, toDays: -1 }) })
      webServer = await startRawServer(saying('HTTP/1.1 400 Bad Request\r\n\r\n'))
      Object.assign(servers, { plain, secure, short, webServer, nobody: { port: 1 } })
      const module = (name: string, more: string) =>
        `  ${name}: { prober: grpc, timeout: 3s, grpc: { preferred_ip_protocol: ip4, ${more} } }\n`
      const services = ['down', 'unknown', 'gone', 'nobody']
      exporter = await startExporter(
        [
          module('whole', ''),
          ...services.map((service) => module(service, `service: ${service}`)),
          module('tls', `tls: true, tls_config: { ca_file: ${caFile} }`),
          module('untrusting', 'tls: true'),
        ].join(''),
      )
    })
    afterAll(async () => {
      await Promise.all([plain, secure, short, webServer, exporter].map((one) => one.close()))
    })

    async function ours(server: string, config: Options, ca: boolean): Promise<Outcome> {
      const port = servers[server]?.port ?? 0
      const request = ca ? { tls: { ca: authority.ca } } : {}
      const observation = await runGrpc({ port, config: { mode: 'HEALTH', ...config }, request })
      const samples = new Map(
        grpc.samples(observation.observed).map(({ name, value, labels = {} }) => {
          const all = Object.entries(labels).map(([label, text]) => `${label}="${text}"`)
          return [all.length === 0 ? name : `${name}{${all.join()}}`, value]
        }),
      )
      return outcomeOf(codes(observation).length === 0, (name) => samples.get(name))
    }

    async function theirs(server: string, module: string): Promise<Outcome> {
      const samples = await exporter.measure(module, `127.0.0.1:${servers[server]?.port}`)
      return outcomeOf(samples.get('probe_success') === 1, (name) => samples.get(name))
    }

    test.each<[string, string, string, Options, Partial<Outcome>]>([
      ['the whole server', 'plain', 'whole', {}, { success: true, states: ['SERVING'] }],
      ['NOT_SERVING', 'plain', 'down', { service: 'down' }, { states: ['NOT_SERVING'] }],
      ['UNKNOWN', 'plain', 'unknown', { service: 'unknown' }, { states: ['UNKNOWN'] }],
      ['SERVICE_UNKNOWN', 'plain', 'gone', { service: 'gone' }, { states: ['SERVICE_UNKNOWN'] }],
      ['NOT_FOUND', 'plain', 'nobody', { service: 'nobody' }, { statusCode: 5, states: [] }],
      ['TLS', 'secure', 'tls', { tls: true }, { success: true, ssl: 1 }],
      ['TLS with a server that has none', 'plain', 'tls', { tls: true }, { statusCode: 14 }],
      ['no TLS with a server that wants it', 'secure', 'whole', {}, { statusCode: 14 }],
      ['HTTP/1.1', 'webServer', 'whole', {}, { statusCode: 14 }],
    ])('the same: %s', async (_, server, module, config, expected) => {
      const [mine, peers] = [
        await ours(server, config, module === 'tls'),
        await theirs(server, module),
      ]
      expect(peers).toMatchObject(expected)
      expect(mine).toMatchObject({ ...peers, ip: peers.ip })
    })

    test('nobody there: the same, but we do not say by which protocol nothing was reached', async () => {
      const [mine, peers] = [await ours('nobody', {}, false), await theirs('nobody', 'whole')]
      expect(peers).toMatchObject({ success: false, statusCode: 14, ip: 4 })
      expect(mine).toEqual({ ...peers, ip: undefined })
    })

    test.each([
      ['an authority that nobody trusts', 'secure', 'untrusting', false],
      ['a certificate that has expired', 'short', 'tls', true],
    ])('%s: the exporter knows no expiry then, we do', async (_, server, module, ca) => {
      const [mine, peers] = [await ours(server, { tls: true }, ca), await theirs(server, module)]
      expect(peers).toMatchObject({ success: false, statusCode: 14, ssl: 0, expiry: undefined })
      expect(mine).toEqual({ ...peers, ssl: 1, expiry: expect.any(Number) as number })
    })
  },
)
