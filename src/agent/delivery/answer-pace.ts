// Watches over an answer that may come slowly: it has as long as it needs while it goes on coming, within a
// bound, and one whose line has died is given up soon.

/** How slowly an answer may come, from its first byte on. */
export interface AnswerPaceBounds {
  /** Idle timeout: time without a byte. */
  idleMs: number
  /** Time until its last byte. */
  wholeMs: number
}

/** An answer that is coming. */
export interface AnswerPace {
  /** A part of the answer came. */
  came(): void
  /** To be called in any case. */
  end(): void
}

/** Begins to watch; calls back, with the bound that was passed, when the answer is too slow. */
export function watchPace(bounds: AnswerPaceBounds, onLate: (ms: number) => void): AnswerPace {
  const { idleMs, wholeMs } = bounds
  const idleTimer = setTimeout(() => onLate(idleMs), idleMs)
  const wholeTimer = setTimeout(() => onLate(wholeMs), wholeMs)
  return {
    came: () => void idleTimer.refresh(),
    end() {
      clearTimeout(idleTimer)
      clearTimeout(wholeTimer)
    },
  }
}
