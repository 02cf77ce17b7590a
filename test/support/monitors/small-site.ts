// A small site for scripts: pages with everything that browsers report, and an API.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll } from 'vitest'

const html = (body: string) =>
  `<!doctype html><title>Shop</title><link rel="icon" href="data:,"><h1>Shop</h1>${body}`

const PAGES: Readonly<Record<string, string>> = {
  '/': html('<p id="stock">in stock</p><a href="/next">next</a><img src="/picture.svg">'),
  '/next': html('<p>the next page</p>'),
  '/noisy': html(
    '<script>console.log("said by the page"); fetch("/missing"); setTimeout(() => { throw new Error("broken page") }, 0)</script>',
  ),
}
const PICTURE = '<svg xmlns="http://www.w3.org/2000/svg" width="400" height="300"/>'

/** Starts the site; returns its address and the received requests. */
export async function startSmallSite(): Promise<{ url: string; requests: string[] }> {
  const requests: string[] = []
  const server = createServer((request, response) => {
    requests.push(`${request.method} ${request.url}`)
    answer(request, response)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  closing.push(() => server.close())
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, requests }
}

const closing: (() => void)[] = []
afterAll(() => {
  for (const close of closing) close()
})

function answer(request: IncomingMessage, response: ServerResponse): void {
  const path = request.url ?? ''
  if (path === '/api/items') {
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify({ items: ['pen', 'ink'], saw: request.headers['x-token'] ?? null }))
  } else if (path === '/picture.svg') {
    response.setHeader('content-type', 'image/svg+xml')
    response.end(PICTURE)
  } else if (PAGES[path] === undefined) {
    response.writeHead(404).end('no such page')
  } else {
    response.setHeader('content-type', 'text/html')
    response.end(PAGES[path])
  }
}
