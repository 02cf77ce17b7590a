// HTTP as raw bytes, for requests that no client sends.
import { connect } from 'node:net'

/** The answer; status 0 without one. */
export interface RawAnswer {
  status: number
  text: string
}

/** Sends bytes as they are and reads until the other side closes. */
export function sendRaw(
  text: string,
  { port, end = false }: { port: number; end?: boolean },
): Promise<RawAnswer> {
  return new Promise((resolve, reject) => {
    let answer = ''
    const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
    socket.on('error', (error: NodeJS.ErrnoException) => {
      if (answer === '' && error.code !== 'EPIPE') reject(error)
    })
    socket.on('data', (chunk) => (answer += chunk.toString('latin1')))
    socket.on('close', () => resolve({ status: Number(answer.slice(9, 12)), text: answer }))
    socket.on('end', () => socket.destroy())
    if (end) socket.end(text, 'latin1')
    else socket.write(text, 'latin1')
  })
}
