"""Questions about paths that are cut or carry another run: frozen and live."""
