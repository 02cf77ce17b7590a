// A container of an image for a bench: started by the usual `docker run`, with the figures of its control group.
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { engine } from '../../support/container/container-engine.ts'
import { freePort } from '../../support/network/free-port.ts'
import { answers } from '../../support/network/nginx.ts'

const run = promisify(execFile)

const READY_MS = 20_000
const SAMPLE_MS = 250
const MEBIBYTE = 1_048_576

/** A container that is ready. */
export interface BenchContainer {
  /** Base URL of its probes and metrics. */
  url: string
  /** From before `docker run` to the first 200 of `/-/readiness`. */
  readyMs: number
  /** Its CPU time and memory until `ends` settles. */
  usageUntil(ends: Promise<unknown>): Promise<ContainerUsage>
  /** `docker stop`, and removes it with its volume. */
  close(): Promise<void>
}

/** CPU time and memory of all processes of a container over a time. */
export interface ContainerUsage {
  wallMs: number
  cpuMs: number
  /** At the end and at the peak, sampled every 250 ms, without reclaimable page cache. */
  memoryMiB: number
  memoryPeakMiB: number
}

/**
 * Starts an image on a read-only root without any capability, with the folder at /etc/vedette; on the host's
 * network when it has to reach servers of this machine. Rejects when it is not ready within 20 s.
 */
export async function startBenchContainer(
  image: string,
  { folder, env = {}, isOnHost = false }: ContainerOptions,
): Promise<BenchContainer> {
  const port = await freePort()
  const variables = { MONITORS_FILE: '/etc/vedette/monitors.yaml', LOG_LEVEL: 'warn', ...env }
  const network = isOnHost
    ? ['--network', 'host', '-e', `AGENT_HEALTH_PORT=${port}`]
    : ['-p', `127.0.0.1:${port}:8081`]
  const args = ['run', '-d', '--read-only', '--cap-drop', 'ALL', ...network]
  for (const [name, value] of Object.entries(variables)) args.push('-e', `${name}=${value}`)
  args.push('-v', `${folder}:/etc/vedette:ro`, image)
  const url = `http://127.0.0.1:${port}`
  const began = performance.now()
  const { stdout } = await run('docker', args)
  const id = stdout.trim()
  const isReady = await answers(`${url}/-/readiness`, AbortSignal.timeout(READY_MS))
  const readyMs = performance.now() - began
  if (!isReady) throw new Error(`${image} did not become ready: docker logs ${id}`)
  return {
    url,
    readyMs,
    usageUntil: (ends) => usageUntil(id, ends),
    async close() {
      await run('docker', ['stop', id])
      await run('docker', ['rm', '-v', id])
    },
  }
}

interface ContainerOptions {
  folder: string
  env?: Record<string, string>
  isOnHost?: boolean
}

async function usageUntil(id: string, ends: Promise<unknown>): Promise<ContainerUsage> {
  const end = new AbortController()
  const over = ends.finally(() => end.abort())
  const [began, before] = [performance.now(), await figuresOf(id)]
  let [last, memoryPeakMiB] = [before, before.memoryMiB]
  while (!end.signal.aborted) {
    await Promise.race([over, new Promise((resolve) => setTimeout(resolve, SAMPLE_MS))])
    last = await figuresOf(id)
    memoryPeakMiB = Math.max(memoryPeakMiB, last.memoryMiB)
  }
  await over
  const wallMs = performance.now() - began
  return { wallMs, cpuMs: last.cpuMs - before.cpuMs, memoryMiB: last.memoryMiB, memoryPeakMiB }
}

/** The engine's figures, of either version of control groups. */
interface EngineStats {
  cpu_stats: { cpu_usage: { total_usage: number } }
  memory_stats: { usage: number; stats: Record<string, number> }
}

async function figuresOf(id: string): Promise<{ cpuMs: number; memoryMiB: number }> {
  const container = (await engine()).getContainer(id)
  const stats = (await container.stats({ stream: false, 'one-shot': true })) as EngineStats
  const { usage, stats: kinds } = stats.memory_stats
  // As in `docker stats`, without inactive page cache.
  const files = kinds['total_inactive_file'] ?? kinds['inactive_file'] ?? 0
  return {
    cpuMs: stats.cpu_stats.cpu_usage.total_usage / 1e6,
    memoryMiB: (usage - files) / MEBIBYTE,
  }
}
