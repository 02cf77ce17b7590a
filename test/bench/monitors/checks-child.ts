// One contender of the bench `checks`, in a separate process: runs `count` checks of an address with a fixed
// concurrency and prints their cost. `node checks-child.ts <kind> <url> <count>`.
import { get } from 'node:http'
import { connect } from 'node:net'
import { cpuCostMs, throughRunner } from './contender.ts'

/** The minimal check in Node: a fresh connection, and the body read. */
function bareHttp(url: URL): Promise<void> {
  return new Promise((resolve, reject) => {
    get(url, { agent: false }, (response) => {
      if (response.statusCode !== 200) reject(new Error(`status ${response.statusCode}`))
      response.on('data', () => undefined).on('end', resolve)
    }).on('error', reject)
  })
}

function bareTcp(url: URL): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect(Number(url.port), url.hostname, () => {
      socket.destroy()
      resolve()
    }).on('error', reject)
  })
}

function contender(kind: string, url: URL): () => Promise<unknown> {
  const statusIs200 = [{ source: 'STATUS_CODE', comparison: 'EQUALS', target: '200' }]
  const json = [
    ...statusIs200,
    { source: 'JSON_BODY', property: '$.status', comparison: 'EQUALS', target: 'ok' },
  ]
  switch (kind) {
    case 'bare-http':
      return () => bareHttp(url)
    case 'bare-tcp':
      return () => bareTcp(url)
    case 'url':
      return throughRunner({
        checkType: 'URL',
        request: { url: url.href, assertions: statusIs200 },
      })
    case 'api':
      return throughRunner({
        checkType: 'API',
        request: { method: 'GET', url: url.href, assertions: json },
      })
    case 'tcp':
      return throughRunner({
        checkType: 'TCP',
        request: { hostname: url.hostname, port: Number(url.port) },
      })
    default:
      throw new Error(`no contender ${kind}`)
  }
}

const [kind = '', address = '', count = '0'] = process.argv.slice(2)
const once = contender(kind, new URL(address))

process.stdout.write(`${await cpuCostMs(once, Number(count))}\n`)
