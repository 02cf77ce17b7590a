// Programs in the sandbox and the policy. Browsers: test/scripts/playwright/run.full.test.ts.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openRunProxy, type RunProxy } from '../../src/sandbox/egress/run-proxy.ts'
import { sandboxed } from '../support/sandbox/sandboxed.ts'
import { fixedResolver, testContext } from '../support/monitors/monitor-context.ts'
import { startHttpServer, type TestServer } from '../support/test-server.ts'

const names = { 'site.test': ['127.0.0.1'], 'metadata.test': ['169.254.169.254'] }
let site: TestServer
let proxy: RunProxy

beforeAll(async () => {
  site = await startHttpServer((request, response) => {
    if (request.url === '/away') response.writeHead(302, { location: 'http://metadata.test/' })
    response.end('hello')
  })
  proxy = await openRunProxy(testContext({ resolver: fixedResolver(names) }).dial)
})
afterAll(async () => {
  await proxy.close()
  await site.close()
})

test('shells fork while what they forked before is ending', async () => {
  // Who waits for the supervisor is interrupted by that, and shells take an interrupted fork for a failed one.
  const pipes = 'for at in $(seq 150); do echo line | sort | head -1 >> out || exit 1; done'
  const end = await sandboxed({ command: '/bin/sh', args: () => ['-c', `${pipes}; wc -l < out`] })
  expect(end.tail).toEqual({ stdout: '150\n', stderr: '' })
})

const SPELLINGS = [
  '169.254.169.254',
  '2852039166',
  '0xa9fea9fe',
  '0251.0376.0251.0376',
  '169.254.43518',
  '::ffff:169.254.169.254',
  '::169.254.169.254',
  '2002:a9fe:a9fe::1',
  '64:ff9b::a9fe:a9fe',
  'fe80::1',
  'fd00:ec2::254',
  '100.100.100.200',
  '198.51.100.7',
]

describe('a Node script', () => {
  test('connects to allowed addresses, to no other by any spelling, and gets no datagram sockets', async () => {
    const end = await sandboxed({
      args: () => [
        '-e',
        `const net = require('node:net')
const reach = (host, port) => new Promise((resolve) => net.connect({ host, port })
  .on('connect', function () { this.destroy(); resolve('GOT') }).on('error', (e) => resolve(e.code)))
;(async () => { for (const host of process.argv.slice(2)) console.log(host, await reach(host, 80))
console.log('site', await reach('localhost', Number(process.argv[1])))
console.log('datagram', await new Promise((resolve) => require('node:dgram').createSocket('udp4')
  .on('error', (e) => resolve(e.code)).send('x', 53, '127.0.0.1', (e) => resolve(e?.code ?? 'GOT'))))
process.exit() })()`,
        String(site.port),
        ...SPELLINGS,
      ],
      blocked: ['198.51.100.0/24'],
    })
    const lines = end.tail.stdout.trim().split('\n')
    const refused = SPELLINGS.map((host) => `${host} EACCES`)
    expect(lines).toEqual([...refused, 'site GOT', 'datagram EACCES'])
    expect(end.blocked).toHaveLength(SPELLINGS.length)
    const ipv6 = end.blocked.map(({ address }) => address).filter((one) => one.includes(':'))
    expect(ipv6).toEqual([SPELLINGS[5], '::a9fe:a9fe', ...SPELLINGS.slice(7, 11)])
    const own = { address: '198.51.100.7', port: 80, network: '198.51.100.0/24' }
    expect(end.blocked.at(-1)).toEqual(own)
  })

  test('fetches through the proxy: the agent resolves names, the policy applies to redirects', async () => {
    const at = `site.test:${site.port}`
    const end = await sandboxed({
      args: () => [
        '-e',
        `const get = (url) => fetch(url).then((r) => r.status, (e) => /\\((\\d+)\\)/.exec(e.cause?.cause?.message)?.[1])
;(async () => { for (const url of process.argv.slice(1)) console.log(await get(url)) })()`,
        `http://${at}/`,
        `http://${at}/away`,
        'http://169.254.169.254/',
      ],
      environment: proxy.environment,
    })
    expect(end.tail.stdout).toBe('200\n403\n403\n')
    expect(proxy.refusals.map(({ host }) => host)).toContain('metadata.test')
  })
})
