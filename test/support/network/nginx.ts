// A real nginx on free ports of loopback with a separate folder, for benchmarks and conformance tests.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort } from './free-port.ts'

/** A running nginx. */
export interface Nginx {
  port: number
  url: string
  pid: number
  /** Stops it and removes its folder. */
  close(): Promise<void>
}

/** Bytes of the page at `/`. */
const PAGE_BYTES = 2048

/**
 * Starts nginx: `/` gives a page of 2 KiB, `/json` a small JSON document. Fails when it does not listen
 * within 5 s. `more` are further servers, as its configuration spells them.
 */
export async function startNginx(more = ''): Promise<Nginx> {
  const folder = await mkdtemp(join(tmpdir(), 'vedette-nginx-'))
  const port = await freePort()
  await writeFile(join(folder, 'index.html'), 'x'.repeat(PAGE_BYTES))
  await writeFile(join(folder, 'nginx.conf'), configuration(folder, port, more))
  const child = spawn('nginx', ['-c', join(folder, 'nginx.conf'), '-p', folder, '-e', 'stderr'], {
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let complaint = ''
  child.stderr.on('data', (chunk: Buffer) => (complaint += chunk.toString()))
  const exited = once(child, 'exit')
  const kill = () => void child.kill()
  process.once('exit', kill)
  const started = await answers(`http://127.0.0.1:${port}/`, AbortSignal.timeout(5000))
  if (!started || child.pid === undefined) throw new Error(`nginx did not start: ${complaint}`)
  return {
    port,
    url: `http://127.0.0.1:${port}`,
    pid: child.pid,
    async close() {
      process.off('exit', kill)
      child.kill('SIGTERM')
      await exited
      await rm(folder, { recursive: true, force: true })
    },
  }
}

function configuration(folder: string, port: number, more: string): string {
  // As root, nginx would serve as a user without access to the folder.
  const user = process.getuid?.() === 0 ? 'user root;' : ''
  return `
${user} daemon off; worker_processes 1; pid ${folder}/nginx.pid;
events { worker_connections 4096; }
http {
  access_log off; client_body_temp_path ${folder}/body; proxy_temp_path ${folder}/proxy;
  fastcgi_temp_path ${folder}/fastcgi; uwsgi_temp_path ${folder}/uwsgi; scgi_temp_path ${folder}/scgi;
  server {
    listen 127.0.0.1:${port} backlog=4096; root ${folder};
    location = / { default_type text/html; try_files /index.html =404; }
    location = /json { default_type application/json; return 200 '{"status":"ok","items":[1,2,3]}'; }
  }
  ${more}
}
`
}

/** Whether the address answers with 200 before the signal aborts. */
export async function answers(url: string, signal: AbortSignal): Promise<boolean> {
  while (!signal.aborted) {
    const status = await fetch(url, { signal }).then(
      (response) => response.status,
      () => 0,
    )
    if (status === 200) return true
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
  return false
}
