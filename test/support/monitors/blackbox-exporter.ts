// Debian's prometheus-blackbox-exporter on a free port of loopback: the peer for comparisons of verdicts and
// figures.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { Agent, get } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort } from '../network/free-port.ts'
import { answers } from '../network/nginx.ts'

/** A running exporter. */
export interface Exporter {
  pid: number
  /** Probes the target once and resolves when the answer has been read; rejects unless it succeeded. */
  probe(module: string, target: string): Promise<void>
  /** Probes the target once, with any outcome: the value of every sample, by its name with labels. */
  measure(module: string, target: string): Promise<ReadonlyMap<string, number>>
  close(): Promise<void>
}

const MODULES = `
  http_2xx: { prober: http, timeout: 5s, http: { preferred_ip_protocol: ip4 } }
  tcp_connect: { prober: tcp, timeout: 5s, tcp: { preferred_ip_protocol: ip4 } }
`

/** Starts the exporter with these modules (YAML, indented by two); fails when it does not answer within 5 s. */
export async function startExporter(modules = MODULES): Promise<Exporter> {
  const folder = await mkdtemp(join(tmpdir(), 'vedette-exporter-'))
  const file = join(folder, 'blackbox.yml')
  await writeFile(file, `modules:\n${modules}`)
  const port = await freePort()
  const flags = [
    `--config.file=${file}`,
    `--web.listen-address=127.0.0.1:${port}`,
    '--log.level=error',
  ]
  const child = spawn('prometheus-blackbox-exporter', flags, { stdio: 'ignore' })
  const exited = once(child, 'exit')
  const url = `http://127.0.0.1:${port}`
  if (!(await answers(`${url}/-/healthy`, AbortSignal.timeout(5000))) || child.pid === undefined) {
    throw new Error('prometheus-blackbox-exporter did not start')
  }
  const agent = new Agent({ keepAlive: true })
  const ask = (module: string, target: string) => {
    const query = new URLSearchParams({ module, target })
    return read(`${url}/probe?${query.toString()}`, agent)
  }
  return {
    pid: child.pid,
    async measure(module, target) {
      return samplesOf(await ask(module, target))
    },
    async probe(module, target) {
      const text = await ask(module, target)
      if (!text.includes('\nprobe_success 1\n'))
        throw new Error(`the exporter's probe failed: ${target}`)
    },
    async close() {
      agent.destroy()
      child.kill('SIGTERM')
      await exited
      await rm(folder, { recursive: true, force: true })
    },
  }
}

function samplesOf(text: string): Map<string, number> {
  const samples = new Map<string, number>()
  for (const line of text.split('\n')) {
    if (line === '' || line.startsWith('#')) continue
    const end = line.lastIndexOf(' ')
    samples.set(line.slice(0, end), Number(line.slice(end + 1)))
  }
  return samples
}

function read(url: string, agent: Agent): Promise<string> {
  return new Promise((resolve, reject) => {
    get(url, { agent }, (response) => {
      let text = ''
      response.setEncoding('utf8')
      response.on('data', (chunk: string) => (text += chunk))
      response.on('end', () => resolve(text))
      response.on('error', reject)
    }).on('error', reject)
  })
}
