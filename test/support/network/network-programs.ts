// Run in a separate network, where it is the name server on port 53: starts a site, lets real programs connect to it
// from the sandbox by names, and writes their output, a line of JSON each. Arguments: names of programs.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { prepareBrowsers } from '../../../src/scripts/playwright/browsers.ts'
import { sandboxed } from '../sandbox/sandboxed.ts'

/** The outcome of one program. */
export interface ProgramSaid {
  program: string
  /** The last of its output. */
  said: string
  blocked: { address: string; port: number; network: string; name?: string }[]
}

const dnsmasq = spawn(
  'dnsmasq',
  [
    '--conf-file=/dev/null',
    '--no-resolv',
    '--no-hosts',
    '--no-daemon',
    '--bind-interfaces',
    '--pid-file=',
    '--user=',
    '--listen-address=127.0.0.1',
    '--local=/test/',
    '--host-record=four.test,203.0.113.5',
    '--host-record=six.test,2001:db8::5',
    '--host-record=both.test,203.0.113.5,2001:db8:99::7',
    '--host-record=metadata.test,169.254.169.254',
  ],
  { stdio: ['ignore', 'ignore', 'pipe'] },
)
await once(dnsmasq.stderr, 'data')

const released = Promise.withResolvers<void>()
const site = createServer((request, response) => {
  // The page is complete only after the report of its socket.
  if (request.url === '/released') released.resolve(void response.end())
  if (request.url === '/late') void released.promise.then(() => response.end())
  if (request.url === '/released' || request.url === '/late') return
  if (request.url === '/away') {
    response.writeHead(302, { location: 'http://metadata.test/latest' }).end()
    return
  }
  response.setHeader('content-type', 'text/html')
  // With triggers for UDP in browsers.
  response.setHeader('alt-svc', 'h3=":443"')
  response.end(`<title>-</title><p>reached ${request.headers.host?.split(':')[0]}</p><script>
const socket = new WebSocket('ws://metadata.test/')
socket.onerror = () => {
  document.title = 'socket refused'
  fetch('/released', { method: 'POST' })
}</script><img src="http://metadata.test/picture"><img src="/late">`)
})
site.on('upgrade', (_, socket) => socket.destroy())
await new Promise<void>((resolve) => site.listen(0, '::', resolve))
const { port } = site.address() as AddressInfo
const at = (name: string, path = '/') => `http://${name}.test:${port}${path}`

const NODE_FETCH = `const of = (url) => fetch(url).then((r) => r.text(), (e) => e.cause.code ?? e.cause.errors?.[0].code)
;(async () => { for (const url of process.argv.slice(1)) console.log(await of(url)) })()`
const PATHS = [at('four'), at('six'), at('both'), at('none'), at('four', '/away')]

const PROGRAMS: Record<string, () => ReturnType<typeof sandboxed>> = {
  node: () => sandboxed({ args: () => ['-e', NODE_FETCH, ...PATHS] }),
  resolver: () =>
    sandboxed({
      args: () => [
        '-e',
        `require('dns').promises.resolve6('six.test').then(console.log, console.log)`,
      ],
    }),
  curl: () =>
    sandboxed({
      command: '/usr/bin/curl',
      args: () => ['-sSL', at('four'), at('both'), at('four', '/away')],
    }),
  chromium: () => browser(at('six')),
  'chromium, both families': () => browser(at('both')),
  'chromium, redirected': () => browser(at('four', '/away')),
}

function browser(url: string) {
  return sandboxed({
    command: '/bin/sh',
    args: async (folder) => {
      const browsers = join(folder, 'browsers')
      // A Playwright that wants no browser by name: the launcher alone is what counts.
      writeFileSync(join(folder, 'browsers.json'), '{"browsers":[]}')
      await prepareBrowsers(browsers, folder, { chromium: '/usr/bin/chromium' })
      const launcher = join(browsers, 'chromium')
      return [launcher, '--headless', '--disable-gpu', '--no-first-run', '--dump-dom', url]
    },
  })
}

for (const [program, run] of Object.entries(PROGRAMS)) {
  if (!process.argv.slice(2).some((one) => program.startsWith(one))) continue
  const { tail, blocked } = await run()
  const said: ProgramSaid = { program, said: tail.stdout + tail.stderr.slice(-2000), blocked }
  process.stdout.write(`${JSON.stringify(said)}\n`)
}
dnsmasq.kill()
process.exit()
