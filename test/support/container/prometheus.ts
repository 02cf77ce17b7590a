// Debian's Prometheus on a free port of loopback, with the settings of docker/prometheus.yml except targets and
// scrape interval.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse, stringify } from 'yaml'
import { freePort } from '../network/free-port.ts'
import { answers } from '../network/nginx.ts'
import { temporaryFolder } from '../temporary-folder.ts'

const SETTINGS = join(import.meta.dirname, '../../../docker/prometheus.yml')
const START_MS_MAX = 20_000

/** A series of an answer, with its value now. */
export interface Sample {
  labels: Record<string, string>
  value: number
}

/** A running server. */
export interface Prometheus {
  /** Rejects with Prometheus' message where it refuses the query. */
  query(text: string): Promise<Sample[]>
  close(): Promise<void>
}

interface Job {
  job_name: string
  dns_sd_configs?: unknown
  static_configs?: { targets: string[]; labels?: Record<string, string> }[]
}

/** Starts a server that scrapes these targets, by job name, every second. */
export async function startPrometheus(
  targets: Record<string, string>,
  labels: Record<string, string> = {},
): Promise<Prometheus> {
  const folder = temporaryFolder()
  const settings = parse(readFileSync(SETTINGS, 'utf8')) as { scrape_configs: Job[] }
  const scrape_configs = settings.scrape_configs.map((job) => ({
    ...job,
    dns_sd_configs: [],
    static_configs: [{ targets: [targets[job.job_name] ?? 'nobody:9'], labels }],
  }))
  const global = { scrape_interval: '1s' }
  const config = join(folder, 'prometheus.yml')
  writeFileSync(config, stringify({ ...settings, global, scrape_configs }))
  const url = `http://127.0.0.1:${await freePort()}`
  const flags = [
    `--config.file=${config}`,
    `--storage.tsdb.path=${join(folder, 'data')}`,
    `--web.listen-address=${new URL(url).host}`,
  ]
  const child = spawn('prometheus', flags, { stdio: ['ignore', 'ignore', 'pipe'] })
  const exited = once(child, 'exit')
  let log = ''
  child.stderr.on('data', (bytes: Buffer) => (log = (log + bytes.toString()).slice(-4000)))
  if (!(await answers(`${url}/-/ready`, AbortSignal.timeout(START_MS_MAX)))) {
    child.kill('SIGKILL')
    throw new Error(`prometheus did not start: ${log}`)
  }
  return {
    async query(text) {
      const asked = `${url}/api/v1/query?${new URLSearchParams({ query: text }).toString()}`
      const answer = (await (await fetch(asked)).json()) as Answer
      if (answer.status !== 'success') throw new Error(`${text}: ${answer.error}`)
      return answer.data.result.map(({ metric, value }) => ({
        labels: metric,
        value: Number(value[1]),
      }))
    },
    async close() {
      child.kill('SIGTERM')
      await exited
    },
  }
}

interface Answer {
  status: string
  error?: string
  data: { result: { metric: Record<string, string>; value: [number, string] }[] }
}
